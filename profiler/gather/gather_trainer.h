// The shards of one profiled training, and what other processes recorded of its
// devices, as one trace.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "data/result.h"
#include "data/trace/trace.h"
#include "profiler/gather/profile_files.h"

namespace reprise {

/// Steps from `first` to before `end`.
struct StepWindow {
  int64_t first = 0, end = INT64_MAX;
};
/// "3:7", "3:", ":7". Empty for anything else, and for an empty window.
std::optional<StepWindow> parse_step_window(const std::string& text);

/// The trace of a profiled trainer, as `reprise train --trace` has it, units
/// with the times of the device where their kernels were recorded. Errors: kIo;
/// kParse; kInvalid, as gather_shards; kUnsupported without trainer.json.
Result<Trace> gather_trainer(const ProfileFiles& files, const TrainerRun& run,
                             const std::string& directory,
                             const StepWindow& window);

}  // namespace reprise
