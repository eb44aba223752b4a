// Walks a schedule: thunks over one arena, compute on the caller's thread (and
// the others of its team), collectives on one that sleeps while it waits.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "data/hlo/module.h"
#include "data/parallel.h"
#include "data/result.h"
#include "data/schedule/schedule.h"
#include "data/schedule/timed_schedule.h"
#include "profiler/recorder.h"
#include "runtime/cpu/arena.h"
#include "runtime/cpu/finite_check.h"
#include "runtime/cpu/kernel_code.h"
#include "runtime/cpu/routine_scratch.h"
#include "runtime/cpu/stream_waits.h"
#include "runtime/cpu/unit_calls.h"
#include "runtime/process/communicator.h"
#include "runtime/train/progress.h"
#include "runtime/train/step_executor.h"

namespace reprise {

/// The CPU's executor. A step is a walk over a vector; nothing is allocated in
/// it. Steps run with denormals flushed to zero.
class Executor final : public StepExecutor {
 public:
  struct Options {
    std::vector<int> cores = {};  ///< Of compute threads; none: any.
    size_t threads = 1;           ///< That compute.
    /// The least estimated time of a unit that threads share.
    double worth_sharing_ns = kWorthSharing_ns;
    int64_t rank = 0;  ///< What partition-id and replica-id tell.
    /// Of collectives inside loops and branches, beside those of the step; may
    /// be null where there are none.
    Communicator* called = nullptr;
  };

  /// Lays out the arena, writes constants and binds every unit. `kernels` are
  /// those of Schedule::kernels, in order. All references must outlive the
  /// executor. Errors: kUnsupported naming the first unit that cannot run;
  /// kDevice.
  static Result<std::unique_ptr<Executor>> create(
      const Module& inlined, const Schedule& schedule,
      std::span<const KernelCode> kernels, Communicator& communicator,
      Recorder* recorder, const Options& options);
  ~Executor() override;
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  /// Memory beside the arena, for routines that find too little in it.
  size_t scratch_bytes() const { return scratch_.size_bytes(); }
  std::span<std::byte> bytes_of(const Location& location) const;
  std::span<std::byte> parameter(int64_t number) const;
  std::span<std::byte> output(int64_t number) const;

  std::span<std::byte> edit_parameter(int64_t number) override {
    return parameter(number);
  }
  Status commit_parameter(int64_t) override { return {}; }
  Result<std::span<const std::byte>> read_parameter(int64_t number) override {
    return parameter(number);
  }
  Result<std::span<const std::byte>> read_output(int64_t number) override {
    return output(number);
  }
  Status run_step(int32_t step) override;
  Result<NonFinite> find_non_finite(int32_t step) override;

 private:
  Executor(const Schedule& schedule, Communicator& communicator,
           Recorder* recorder, Arena arena);
  Status write_constants(const Module& inlined, int64_t rank);
  Status bind(const Module& inlined, std::span<const KernelCode> kernels,
              const Options& options);
  Status run_streams(int32_t step);
  Status run_compute(int32_t step);
  /// What a unit's events are numbered by: its first part's.
  int32_t number_of(UnitId unit) const;
  Error failed_unit(UnitId unit, int32_t step);
  void wait_for_communication(uint32_t count, UnitId unit, int32_t step);
  void communicate_forever();
  void run_communication(int32_t step);
  bool run_collective(uint32_t place, int32_t step);
  void run_immediate_collectives(uint32_t count, int32_t step);
  void fail_communication(Error error);

  const Schedule& schedule_;
  Communicator& communicator_;
  Recorder* recorder_ = nullptr;
  Arena arena_;
  std::unique_ptr<ThreadTeam> team_;  ///< Null where one thread computes.
  StepTrial sharing_;                 ///< Of the team.
  PartTrials trials_;
  StreamSequences waits_;
  TimedSchedule timed_;  ///< What events are numbered by.
  PartRecorder parts_;
  ScratchMemory scratch_;
  CalledCollectives called_;
  UnitCalls calls_;                 ///< Of the compute stream.
  std::vector<int64_t> told_ns_;    ///< `[place]` When compute told its end.
  std::vector<ArrayBytes> arrays_;  ///< Of the latest collective.
  int64_t sequence_ = 0;            ///< Collectives run so far.
  int64_t ready_ns_ = 0;    ///< When the latest collective could have started.
  uint32_t immediate_ = 0;  ///< Collectives run this step without a thread.

  Progress compute_, communication_;  ///< Ended units of each stream.
  Progress requested_;                ///< Steps asked of the second thread.
  uint32_t requests_ = 0;
  int32_t requested_step_ = 0;  ///< Written before `requested_`.
  std::atomic<bool> stopping_{false};
  std::atomic<bool> failed_{false};
  std::optional<Error> error_;          ///< Written before `failed_`.
  std::unique_ptr<FiniteCheck> check_;  ///< Only within find_non_finite.
  std::thread communication_thread_;
};

}  // namespace reprise
