// Runs a schedule on a GPU: a compute stream, a communication stream of high
// priority and a copy stream for the batch, joined by events where the schedule
// has dependencies. After a first step it is replayed as one CUDA graph, unless
// collectives go through the host or eager steps were asked for.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "data/result.h"
#include "data/schedule/schedule.h"
#include "profiler/recorder.h"
#include "runtime/cpu/stream_waits.h"
#include "runtime/cuda/batch_feeds.h"
#include "runtime/cuda/device_communicator.h"
#include "runtime/cuda/device_program.h"
#include "runtime/cuda/device_watch.h"
#include "runtime/cuda/driver.h"
#include "runtime/cuda/injected_recorder.h"
#include "runtime/cuda/step_marks.h"
#include "runtime/train/progress.h"
#include "runtime/train/step_executor.h"

namespace reprise {

class CudaExecutor final : public StepExecutor {
 public:
  struct Options {
    bool graph = true;  ///< Not with host-staged collectives.
    double timeout_s = kDeviceWaitSeconds;  ///< Longest wait for the device.
    std::vector<int64_t> fed{};    ///< Parameters that every step copies anew.
    Recorder* recorder = nullptr;  ///< Of host-staged collectives.
    std::string peers = "a rank";  ///< Who may be silent, for messages.
    DeviceWatch* watch = nullptr;  ///< Over calls that do not return; or none.
  };

  /// Makes streams, events and staging memory, and attaches the communicator
  /// (collective). `program` is of `schedule`; all references must outlive the
  /// executor. Errors: kUnsupported naming the first collective that cannot
  /// run; kDevice.
  static Result<std::unique_ptr<CudaExecutor>> create(
      std::shared_ptr<const DeviceContext> context, const Schedule& schedule,
      std::unique_ptr<DeviceProgram> program, DeviceCommunicator& communicator,
      const Options& options);
  /// Where the device does not end its work it is abandoned (Driver::abandon).
  ~CudaExecutor() override;
  CudaExecutor(const CudaExecutor&) = delete;
  CudaExecutor& operator=(const CudaExecutor&) = delete;

  std::span<std::byte> edit_parameter(int64_t number) override;
  Status commit_parameter(int64_t number) override;
  Result<std::span<const std::byte>> read_parameter(int64_t number) override;
  Result<std::span<const std::byte>> read_output(int64_t number) override;
  Status run_step(int32_t step) override;
  void set_meanwhile(const std::function<void()>& work) override {
    meanwhile_ = work;
  }
  void mark_step(int32_t step, bool warmup, int64_t start_ns,
                 int64_t end_ns) override;
  void leave_out_third(int32_t first, int32_t end) override;
  std::optional<int64_t> device_step_ns() const override {
    return device_step_ns_;
  }

  /// True once steps are replays of a graph.
  bool replays_graph() const { return executable_ != nullptr; }
  /// Whether steps will be.
  bool wants_graph() const { return wants_graph_; }

 private:
  /// What the communication thread needs to know of a step.
  struct Request {
    int32_t step = 0;
    bool stopping = false;
  };

  CudaExecutor(std::shared_ptr<const DeviceContext> context,
               const Schedule& schedule, std::unique_ptr<DeviceProgram> program,
               DeviceCommunicator& communicator, const Options& options);
  Status make_streams();
  Status attach_communicator();

  Status begin_step();
  Status issue(int32_t step);
  Status issue_units(int32_t step);
  Status issue_compute(uint32_t place, int32_t step);
  Status issue_collective(uint32_t place, int32_t step);
  Status join_streams();
  void communicate_forever();
  void run_communication(int32_t step);
  Status wait_for_end(int32_t step);
  Status capture(int32_t step);
  Status instantiate();
  Status measure();
  Status give_up(Error error);
  Status overdue(int32_t step);
  Status failed(CUresult state, int32_t step) const;
  bool runs_dry(double timeout_s) const;
  Result<std::span<const std::byte>> read(const Location& location);
  bool meets_peers() const { return communicates_ || calls_collectives_; }
  void visit_unit(int32_t step, uint32_t unit);

  std::shared_ptr<const DeviceContext> context_;
  const Driver& driver_;
  const Schedule& schedule_;
  std::unique_ptr<DeviceProgram> program_;
  DeviceCommunicator& communicator_;
  Recorder* recorder_ = nullptr;
  InjectedRecorder injected_;
  double timeout_s_ = kDeviceWaitSeconds;
  std::string peers_;
  DeviceWatch* watch_ = nullptr;
  bool wants_graph_ = false;
  bool communicates_ = false;  ///< There are collectives that do something,
  bool calls_collectives_ = false;  ///< or inside loops and branches.

  StreamSequences waits_;
  CudaStream compute_, communication_, copy_;
  CudaEvent started_, ended_;     ///< Timed, around a step.
  CudaEvent begun_;               ///< Forks the other streams from compute's.
  CudaEvent fed_, communicated_;  ///< Joins them again.
  /// `[place]` Ends of units that the other stream waits for; else null.
  std::vector<CudaEvent> compute_told_, communication_told_;
  std::optional<BatchFeeds> feeds_;  ///< Never empty after `create`.
  std::optional<StepMarks> marks_;   ///< Nor this.
  std::vector<std::byte> scratch_;   ///< Between the host and other parameters.
  CudaGraph graph_;
  CudaGraphExecutable executable_;
  bool is_graph_recorded_ = false;  ///< A tracer was on when it was made.
  std::function<void()> meanwhile_;
  /// Of the thread that issues: the unit that it enqueues.
  std::optional<DeviceWatch::Visit> visit_;
  int32_t step_ = -1;
  uint32_t unit_ = 0;
  std::optional<int64_t> device_step_ns_;
  std::optional<Error> error_;
  bool is_overdue_ = false;
  int64_t sequence_ = 0;  ///< Collectives run so far.

  // With host-staged collectives a thread of their own enqueues them: units
  // enqueued so far on each stream, steps asked for.
  Progress compute_issued_, communication_issued_, requested_;
  uint32_t requests_ = 0;
  Request request_;                           ///< Written before `requested_`.
  std::optional<Error> communication_error_;  ///< Before the last `tell`.
  std::thread communication_thread_;
};

}  // namespace reprise
