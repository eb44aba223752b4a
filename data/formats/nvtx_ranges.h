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

/// A range that may be a step.
struct StepRange {
  std::string pattern;  ///< "ProfilerStep#" of "ProfilerStep#3".
  int64_t number = 0;   ///< -1: it has none.
  int64_t start_ns = 0, end_ns = 0;
  int64_t epoch = 0;  ///< Where the name tells it.
};

/// "ProfilerStep#3", "step 3", "Iteration: 3", "train_step_3", "Step 3/100",
/// "epoch 1 batch [3]" …: letters and separators, the word step or iter last,
/// then only digits. Without a number "step", "train_iteration" and their like.
/// Without times.
std::optional<StepRange> step_range(std::string_view name);

/// Adds the range to a thread's candidates if its name may be a step's and
/// there are fewer than a million.
void note_step_range(std::string_view name, int64_t start_ns, int64_t end_ns,
                     std::vector<StepRange>& candidates);

/// Whether a step's name is that of one that does not train: "eval step",
/// "validation_step", "test step".
bool names_evaluation(std::string_view name);

/// Of one thread's candidates those that are its steps, by start: of the
/// patterns whose ranges do not overlap and whose numbers rise the one that
/// takes the most time, as steps hold their micro-batches, one of evaluation
/// only where no other is; where numbers begin anew at the first or with an
/// epoch, they are counted on. One range alone may be anything but the
/// profiler's own. Where none has numbers, ranges of one name are counted from
/// 1, if there are three or more and little between them.
std::vector<StepRange> steps_among(const std::vector<StepRange>& candidates);

}  // namespace reprise
