// The seam between a training run and what executes its schedule: host memory
// walked by a thread, or a device's memory and streams.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "data/result.h"

namespace reprise {

/// The first units of a step that wrote what is not finite; empty: none did, or
/// the executor cannot tell.
struct NonFinite {
  std::string nan_unit, infinite_unit;
};

/// One rank's copy of a schedule, ready to run. All calls belong to one thread.
class StepExecutor {
 public:
  virtual ~StepExecutor() = default;

  /// Host memory for a parameter's whole new value: write all of it, then call
  /// `commit_parameter` before anything else. On the CPU it is the parameter
  /// itself.
  virtual std::span<std::byte> edit_parameter(int64_t number) = 0;
  /// Makes the edited value the parameter's, from the next step on. Errors:
  /// kDevice.
  virtual Status commit_parameter(int64_t number) = 0;

  /// Present value, valid until the next call. Errors: kDevice.
  virtual Result<std::span<const std::byte>> read_parameter(int64_t number) = 0;
  /// Of the last step.
  virtual Result<std::span<const std::byte>> read_output(int64_t number) = 0;

  /// Runs every unit once and returns when all streams are done. Errors:
  /// kDevice; the executor is of no use after one.
  virtual Status run_step(int32_t step) = 0;

  /// Runs a step and looks at what each unit writes. Collectives run as in
  /// `run_step`, so all ranks call either. Errors: kDevice.
  virtual Result<NonFinite> find_non_finite(int32_t step) {
    const Status ran = run_step(step);
    if (!ran) return pass(ran.error());
    return NonFinite{};
  }

  /// `work` is called once in every step, when a device has all of it to do and
  /// this thread has nothing; never where the thread computes itself. It must
  /// not call the executor.
  virtual void set_meanwhile(const std::function<void()>& /*work*/) {}

  /// Hears of a step that has ended, for recorders of its own.
  /// Units: CLOCK_MONOTONIC, as Recorder::now_ns.
  virtual void mark_step(int32_t /*step*/, bool /*warmup*/,
                         int64_t /*start_ns*/, int64_t /*end_ns*/) {}
  /// Of the timed steps `first` to `end` - 1 a third is to run without those
  /// recorders, where the user has not chosen: it shows what recording costs.
  virtual void leave_out_third(int32_t /*first*/, int32_t /*end*/) {}
  /// How long the last step took by the device's own clock, where it has one.
  virtual std::optional<int64_t> device_step_ns() const { return {}; }
};

}  // namespace reprise
