// From the shards that the processes of a job left in a directory to one trace:
// of strangers as `reprise import` reads them, of our trainer with its program,
// plan and units.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/profile_files.h"
#include "data/formats/reader.h"
#include "data/result.h"
#include "data/trace/trace.h"

namespace reprise {

/// Steps from `first` to before `end`.
struct StepWindow {
  int64_t first = 0, end = INT64_MAX;
};
/// "3:7", "3:", ":7". Empty for anything else, and for an empty window.
std::optional<StepWindow> parse_step_window(const std::string& text);

/// What was gathered, for people.
struct GatheredProfile {
  /// One a rank; of strangers, then of other processes.
  std::vector<FileReport> files;
  std::vector<uint32_t> ranks;  ///< Of the first trace, as
  int64_t events = 0;           ///< its events.
  bool of_trainer = false;
  std::vector<std::string> warnings;  ///< Of a trainer's trace.
};

/// Writes the trace of a directory of shards to `output`; with several hosts
/// their clocks are aligned by what the ranks did together. `window` bounds the
/// steps of a trainer (the libraries keep to it themselves). A trace holds one
/// training: of a trainer's later runs each gets its own beside `output`, by
/// `path_of_run`, and the reports tell. Errors: kIo; kUnsupported when there is
/// no shard that can be read; kInvalid where a later run's trace is there
/// already and not to be replaced by `force`; those of `gather_trainer` and
/// write_trace.
Result<GatheredProfile> gather_profile(const std::string& directory,
                                       const std::string& output,
                                       const StepWindow& window = {},
                                       bool force = false);

/// Of run `number` from 1: "t.trace", "t.2.trace", "t.3.trace".
std::string path_of_run(const std::string& output, size_t number);

/// The trace of a profiled trainer, as `reprise train --trace` has it, units
/// with the times of the device where their kernels were recorded. Errors: kIo;
/// kParse; kInvalid, as gather_shards; kUnsupported without trainer.json.
Result<Trace> gather_trainer(const ProfileFiles& files, const TrainerRun& run,
                             const std::string& directory,
                             const StepWindow& window);

}  // namespace reprise
