// Where state starts and where it goes: initial values of every kind, and the
// state of a run as a tensor file that another run takes up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/hlo/module.h"
#include "data/io/tensor_file.h"
#include "data/manifest/manifest.h"
#include "data/result.h"

namespace reprise {

/// First values of all state of a program.
class InitialState {
 public:
  /// Opens every file that initial values are in and checks them against the
  /// program. With `state_path`, all of it is read there, by the parameters'
  /// names. Where the manifest has no folders, tensors are made up. Errors:
  /// those of find_data_file and TensorFile; kInvalid, kUnsupported, naming
  /// every parameter that cannot be filled.
  static Result<InitialState> open(const Manifest& manifest,
                                   const Computation& entry,
                                   const std::string& state_path);

  /// The value of a state parameter on one rank. `shape`: its
  /// declared_elements. Requires: `out` has its size.
  void fill(const ManifestParameter& parameter, const Shape& shape,
            int64_t rank, std::span<std::byte> out) const;

  /// Steps that made it: what is left of the data starts there.
  int64_t steps() const { return steps_; }

 private:
  Status open_state(const Manifest& manifest, const Computation& entry,
                    const std::string& path);
  Status open_tensors(const Manifest& manifest, const Computation& entry);

  struct Source {
    std::shared_ptr<const TensorFile> file;
    const TensorEntry* tensor = nullptr;
    bool per_rank = false;
  };
  std::map<int64_t, Source> sources_;  ///< By parameter; others are computed.
  int64_t steps_ = 0;
};

/// What a state parameter is called in a state file: its name, with its number
/// where another has that name too.
std::string state_name(const Manifest& manifest,
                       const ManifestParameter& parameter);

/// State after a run.
struct FinalState {
  int64_t steps = 0;  ///< Since the very first, runs before this included.
  /// Of all ranks, one after the other, where it differs by rank; else one.
  std::map<int64_t, std::string> tensors;  ///< By parameter.
};

/// Writes it: safetensors, or .npz where the path ends so. 4-bit
/// integers as s8 and u8. Errors: as write_tensor_file.
Status write_state(const std::string& path, const Manifest& manifest,
                   const Computation& entry, const FinalState& state);

}  // namespace reprise
