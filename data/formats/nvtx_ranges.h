// What the names of NVTX ranges tell, whoever recorded them: operators of
// PyTorch's emit_nvtx, and the ranges that number the steps of a training.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reprise {

/// "aten::mm, seq = 5, op_id = 17, sizes = [[2, 3]]" taken apart.
struct TorchRange {
  std::string_view name;
  int64_t id = -1;
  std::string_view sizes;
};

/// Empty when the name has no op_id.
std::optional<TorchRange> torch_range(std::string_view name);

/// A range that may number a step.
struct StepRange {
  std::string pattern;  ///< "ProfilerStep#" of "ProfilerStep#3".
  int64_t number = 0, start_ns = 0, end_ns = 0;
};

/// "ProfilerStep#3", "step 3", "Iteration: 3", "train_step_3" …: letters and
/// separators, the word step or iter in them, then only digits. Without times.
std::optional<StepRange> step_range(std::string_view name);

/// Adds the range to a process's candidates if its name may number a step and
/// there are fewer than a million.
void note_step_range(std::string_view name, int64_t start_ns, int64_t end_ns,
                     std::vector<StepRange>& candidates);

/// Of one process's candidates those that do number its steps, by start: the
/// pattern with most ranges, if its ranges do not overlap and its numbers rise;
/// where they begin anew at the first, an epoch's, they are counted on. One
/// range alone may be anything but the profiler's own.
std::vector<StepRange> steps_among(const std::vector<StepRange>& candidates);

}  // namespace reprise
