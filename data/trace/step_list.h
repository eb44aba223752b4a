// Step times without a trace: what a training script printed, or a benchmark
// wrote down. Format: below; specified in data/trace/format.md.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/result.h"

namespace reprise {

struct StepList {
  std::string program;          ///< What ran; "" unknown.
  int64_t ranks = 0;            ///< Of the job; 0 unknown.
  std::vector<double> step_ns;  ///< In order.
  /// Time of a fixed work beside each step; empty where none was taken.
  std::vector<double> reference_ns;
};

/// Whether a file that begins so may be a list: text that begins with a number,
/// a comment or JSON of ours.
bool may_be_step_list(std::string_view head);

/// Reads, by content:
///   - text, a step a line: its time and, in all lines or none, a reference's,
///     each with a unit (ns, us, ms, s) or in seconds; "#" starts a comment;
///   - JSON: an array of seconds; reprise.steps/1, {"schema", "program",
///     "ranks", "step_time_ns": [...], "reference_ns": [...]};
///     reprise.train/1.
/// Errors: kParse, naming file and line; kInvalid of no step.
Result<StepList> parse_step_list(std::string_view text, std::string_view file);

}  // namespace reprise
