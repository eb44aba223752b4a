// The manifest beside a program: what its parameters and outputs are, and where
// their values come from. Schema `reprise.manifest/1`, see
// data/programs/README.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/hlo/module.h"
#include "data/result.h"

namespace reprise {

enum class ParameterRole { kState, kBatch };
enum class OutputRole { kState, kLoss, kCorrect, kMetric, kOther };
enum class InitKind { kUniform, kZeros, kOnes, kConstant, kTensor };

struct ManifestParameter {
  int64_t index = 0;
  std::string name;
  ParameterRole role = ParameterRole::kState;
  InitKind init = InitKind::kZeros;  ///< State only.
  uint64_t seed = 0;                 ///< kUniform: stream of splitmix64.
  double scale = 0;                  ///< kUniform: values in [-scale, scale).
  double value = 0;                  ///< kConstant.
  std::string file, tensor;          ///< kTensor: where it lies.
  /// State that differs by rank; in files the ranks are a leading axis.
  bool per_rank = false;
  std::string field;  ///< Batch only: field of the dataset.
};

struct ManifestOutput {
  int64_t index = 0;
  OutputRole role = OutputRole::kOther;
  int64_t parameter = -1;  ///< kState: the parameter it is the next value of.
  std::string name;        ///< kMetric.
};

struct DatasetField {
  std::string name;
  /// records: bytes from the record's start, and values.
  int64_t offset = 0, count = 0;
  PrimitiveType type = PrimitiveType::kU8;  ///< records: of its values.
  double scale = 1;    ///< records: multiplies when the parameter is a float.
  int64_t shift = 0;   ///< text: tokens after the window's start.
  std::string tensor;  ///< tensors: [steps, ranks, shape of the batch].
  int64_t steps = 0;   ///< tensors: its own, or 0 for the dataset's.
};

enum class DatasetKind { kRecords, kText, kTensors };

struct Dataset {
  DatasetKind kind = DatasetKind::kRecords;
  std::string file;  ///< As the manifest names it.
  int64_t record_bytes = 0;
  int64_t sequence = 0;
  int64_t steps = 0;  ///< kTensors: batches, after which they come again.
  uint64_t seed = 0;
  std::vector<DatasetField> fields;
};

/// Folders below which the files that a manifest names may lie; none for a
/// program without a place of its own, as from inside a trace.
struct DataFolders {
  std::string program;  ///< The manifest's own; empty: none.
  std::string data;     ///< Named by the user; empty: none.
  bool none() const { return program.empty() && data.empty(); }
};

struct Manifest {
  std::string name;     ///< "gpt".
  std::string program;  ///< "gpt.2.hlo".
  int64_t ranks = 1;
  std::vector<ManifestParameter> parameters;
  std::vector<ManifestOutput> outputs;
  std::optional<Dataset> dataset;
  std::string reference_file;  ///< Empty when none.
  int64_t reference_steps = 0;
  DataFolders folders;  ///< Where both are.
};

/// Parses manifest JSON; it has no folders then. Errors: kParse, kInvalid.
Result<Manifest> parse_manifest(std::string_view json, const std::string& file);
/// Loads `NAME.json` beside `NAME.hlo`; its folder may hold the data.
Result<Manifest> load_manifest_for(const std::string& hlo_path);

/// A file that a manifest names, found.
struct DataFile {
  std::string path;    ///< Without symbolic links.
  std::string folder;  ///< Of the DataFolders, that which holds it.
};

/// Finds it: a relative name below the user's folder, else below the program's;
/// nothing is opened. Errors: kIo where there is none; kInvalid where it, or
/// what a symbolic link makes of it, lies outside of both.
Result<DataFile> find_data_file(const std::string& name,
                                const DataFolders& folders);
/// Checks a manifest against its program: every parameter is covered, outputs
/// exist and those of state have their parameter's declared_elements.
Status validate_manifest(const Manifest& manifest, const Module& module);
/// Pairs every output that is the next value of a parameter with it in
/// `input_output_alias`, as if the exporter had donated it: only what is paired
/// is updated. Errors: kInvalid where the program pairs either with another.
/// Requires: validate_manifest passed.
Status alias_state(const Manifest& manifest, Module* module);

}  // namespace reprise
