// Which part of a run is recorded: all of it but steps that its program wants
// left out, steps A to B - 1, or what lies between cudaProfilerStart and
// cudaProfilerStop. Threads: any.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace reprise::inject {

/// The number of a range that marks a training step: "ProfilerStep#3",
/// "step 3", "Iteration: 3"; with `chosen` not empty, of the ranges that start
/// with it instead: "epoch 3" and "epoch" (0 then) for "epoch".
std::optional<int64_t> step_number(std::string_view range,
                                   std::string_view chosen);

class Window {
 public:
  enum class Mode { kAll, kSteps, kProfilerApi };

  /// From REPRISE_PROFILE_WINDOW ("api"), REPRISE_PROFILE_STEPS ("A:B", an
  /// empty side is open) and REPRISE_PROFILE_RANGE; kAll where they are unset
  /// or say nothing that can be read.
  void read_environment();

  Mode mode() const { return mode_; }
  bool is_open() const {
    return is_open_.load(std::memory_order_relaxed) &&
           !is_held_.load(std::memory_order_relaxed);
  }
  /// Closed, whatever it holds, until it is let go.
  void hold() { is_held_.store(true); }
  void let_go() { is_held_.store(false); }
  bool is_held() const { return is_held_.load(std::memory_order_relaxed); }
  /// Steps are told apart by NVTX ranges only until somebody marks them.
  bool takes_ranges() const {
    return mode_ == Mode::kSteps && !has_marks_.load(std::memory_order_relaxed);
  }
  /// "steps 2:4", and that it never opened if so; empty without limits.
  std::string describe() const;

  /// Each returns true when the window has opened or closed by it.
  bool begin_step(int64_t step);  ///< An NVTX range of this number starts.
  bool end_step(int64_t step);    ///< … has ended.
  bool mark_step(int64_t step);   ///< The program says: this step has ended.
  bool profiler_range(bool starts);

  /// Steps `first` to `end` - 1 are not recorded where all others are: they
  /// show what a step takes without the recording. Requires: marks of steps.
  void leave_out(int64_t first, int64_t end);

  /// The number of a range of `name`, counted where it has none of its own;
  /// none when it marks no step.
  std::optional<int64_t> number_of(std::string_view name);

 private:
  bool set_open(bool is_open);
  bool holds(int64_t step) const {
    return (step >= first_ && step < end_) == (mode_ == Mode::kSteps);
  }

  Mode mode_ = Mode::kAll;
  int64_t first_ = 0, end_ = 0;  ///< Recorded; of kAll left out.
  std::string steps_;            ///< As given.
  std::string chosen_range_;
  std::atomic<int64_t> unnumbered_{0};  ///< Ranges of the chosen name.
  std::atomic<bool> has_marks_{false};
  std::atomic<bool> is_open_{true}, is_held_{false};
  std::atomic<bool> has_opened_{true};
};

}  // namespace reprise::inject
