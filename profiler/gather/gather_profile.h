// From the shards that the processes of a job left in a directory to one trace:
// of strangers as `reprise import` reads them, of our trainer with its program,
// plan and units.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "data/file.h"
#include "data/formats/reader.h"
#include "data/result.h"
#include "data/trace/trace.h"
#include "profiler/gather/gather_trainer.h"

namespace reprise {

struct GatherOptions {
  /// Of a trainer's steps (the libraries keep to it themselves).
  StepWindow window = {};
  /// Of traces under the names of those to be written.
  Existing existing = Existing::kKeep;
  /// Brings the clocks of several hosts onto one by what the ranks did
  /// together: replay's alignment, bound by the caller. Required.
  std::function<void(Trace&)> align_clocks;
};

/// What was gathered, for people.
struct GatheredProfile {
  /// One a rank; of strangers, then of other processes.
  std::vector<FileReport> files;
  std::vector<uint32_t> ranks;  ///< Of the first trace, as
  int64_t events = 0;           ///< its events.
  bool of_trainer = false;
  std::vector<std::string> warnings;  ///< Of a trainer's trace.
};

/// Writes the trace of a directory of shards to `output`. A trace holds one
/// training: of a trainer's later runs each gets its own beside `output`
/// by `path_of_run`, and the reports tell. Errors: kIo; kUnsupported when there
/// is no shard that can be read; kInvalid where a later run's trace is there
/// already and not to be replaced; those of `gather_trainer` and write_trace.
Result<GatheredProfile> gather_profile(const std::string& directory,
                                       const std::string& output,
                                       const GatherOptions& options);

/// Of run `number` from 1: "t.trace", "t.2.trace", "t.3.trace".
std::string path_of_run(const std::string& output, size_t number);

}  // namespace reprise
