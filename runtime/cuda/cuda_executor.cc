// A step forks the copy and communication streams from the compute stream by an
// event and joins them at its end. Units are enqueued in the schedule's order,
// so that an event is recorded before it is waited for; with host-staged
// collectives, which block, a second thread enqueues the communication stream,
// and both tell each other how far they are. The first step runs eagerly, so
// that libraries load what they load lazily, and is then captured; later ones
// are a single graph launch. The end is polled, not slept for, since a lost
// peer must be noticed, and so must a device that does not end: then nothing
// that may block behind its work is called any more.
#include "runtime/cuda/cuda_executor.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

namespace reprise {
namespace {

/// Between two questions to the communicator while a step runs.
constexpr int64_t kPollPeriodNs = 2'000'000;
/// For streams to run dry once collectives that never end were aborted.
constexpr double kRunDrySeconds = 5;

constexpr auto kIssuing = DeviceWatch::kIssuing;

}  // namespace

CudaExecutor::CudaExecutor(std::shared_ptr<const DeviceContext> context,
                           const Schedule& schedule,
                           std::unique_ptr<DeviceProgram> program,
                           DeviceCommunicator& communicator,
                           const Options& options)
    : context_(std::move(context)),
      driver_(context_->driver()),
      schedule_(schedule),
      program_(std::move(program)),
      communicator_(communicator),
      recorder_(options.recorder),
      injected_(InjectedRecorder::find()),
      timeout_s_(options.timeout_s),
      peers_(options.peers),
      watch_(options.watch),
      waits_(make_stream_waits(schedule)) {
  communicates_ =
      !waits_.communication.units.empty() && !communicator.is_immediate();
  calls_collectives_ = !program_->called_collectives().empty();
  wants_graph_ = options.graph && program_->is_capturable() &&
                 !(meets_peers() && communicator.is_host_staged());
  program_->set_waited([this] { visit_unit(step_, unit_); });
}

/// A unit that waits for the device is in a new place after each wait.
void CudaExecutor::visit_unit(int32_t step, uint32_t unit) {
  step_ = step;
  unit_ = unit;
  visit_.reset();
  visit_.emplace(watch_, kIssuing, step, unit);
}

Result<std::unique_ptr<CudaExecutor>> CudaExecutor::create(
    std::shared_ptr<const DeviceContext> context, const Schedule& schedule,
    std::unique_ptr<DeviceProgram> program, DeviceCommunicator& communicator,
    const Options& options) {
  std::unique_ptr<CudaExecutor> executor(new CudaExecutor(
      std::move(context), schedule, std::move(program), communicator, options));
  Result<BatchFeeds> feeds = BatchFeeds::create(
      executor->driver_, schedule, *executor->program_, options.fed);
  if (!feeds) return pass(feeds.error());
  executor->feeds_.emplace(std::move(*feeds));
  Result<StepMarks> marks = StepMarks::create(
      executor->driver_, executor->waits_, executor->communicates_);
  if (!marks) return pass(marks.error());
  executor->marks_.emplace(std::move(*marks));
  Status status = executor->make_streams();
  if (status) status = executor->attach_communicator();
  if (!status) return pass(status.error());
  // A communicator is one thread's at a time.
  if (executor->communicates_ && communicator.is_host_staged() &&
      !executor->calls_collectives_) {
    executor->communication_thread_ =
        std::thread([raw = executor.get()] { raw->communicate_forever(); });
  }
  return executor;
}

CudaExecutor::~CudaExecutor() {
  if (communication_thread_.joinable()) {
    request_.stopping = true;
    requested_.tell(++requests_);
    communication_thread_.join();
  }
  // Nothing may still run when memory and streams go. After an error the
  // communicator has been told to let go; then the results do not matter.
  if (!driver_.is_abandoned() && !runs_dry(timeout_s_)) driver_.abandon();
  if (driver_.is_abandoned()) return;
  const DeviceWatch::Visit visit(watch_, kIssuing,
                                 "flush of the tool that records", -1);
  injected_.flush();
}

/// Whether all that was enqueued ends, or fails, within the time.
bool CudaExecutor::runs_dry(double timeout_s) const {
  for (const CudaStream* stream : {&compute_, &communication_, &copy_}) {
    if (*stream == nullptr) continue;
    const Status ended = driver_.synchronize(stream->get(), timeout_s);
    if (!ended && driver_.stream_query(stream->get()) == CUDA_ERROR_NOT_READY)
      return false;
  }
  return true;
}

Status CudaExecutor::make_streams() {
  for (CudaStream* stream : {&compute_, &communication_, &copy_}) {
    Result<CudaStream> made =
        make_stream(driver_, /*urgent=*/stream == &communication_);
    if (!made) return pass(made.error());
    *stream = std::move(*made);
  }
  const auto make = [&](CudaEvent& event, bool timed) -> Status {
    Result<CudaEvent> made = make_event(driver_, timed);
    if (!made) return pass(made.error());
    event = std::move(*made);
    return {};
  };
  Status status;
  for (CudaEvent* event : {&started_, &ended_}) {
    if (status) status = make(*event, /*timed=*/true);
  }
  for (CudaEvent* event : {&begun_, &fed_, &communicated_}) {
    if (status) status = make(*event, /*timed=*/false);
  }
  const std::array walks = {
      std::pair(&waits_.compute, &compute_told_),
      std::pair(&waits_.communication, &communication_told_)};
  for (const auto& [walk, told] : walks) {
    told->resize(walk->units.size());
    for (size_t i = 0; i < told->size() && status; ++i) {
      if (walk->tell[i]) status = make((*told)[i], /*timed=*/false);
    }
  }
  return status;
}

Status CudaExecutor::attach_communicator() {
  std::vector<const Unit*> collectives = program_->called_collectives();
  for (const UnitId id : waits_.communication.units)
    collectives.push_back(&schedule_.units[index_of(id)]);
  size_t largest_bytes = 0;
  for (const Unit* unit : collectives) {
    const Status runs = communicator_.check(unit->collective);
    if (!runs) return pass(runs.error(), unit->name);
    largest_bytes = std::max(largest_bytes, touched_bytes(unit->collective));
  }
  // After all checks, which are alike on all ranks: nobody waits in vain.
  for (const Unit* unit : collectives) {
    const Status joined = communicator_.join(unit->collective);
    if (!joined) return pass(joined.error(), unit->name);
  }
  return communicator_.attach(program_->arena(), largest_bytes);
}

std::span<std::byte> CudaExecutor::edit_parameter(int64_t number) {
  if (const auto staging = feeds_->staging(number)) return *staging;
  scratch_.resize(static_cast<size_t>(program_->parameter(number).size_bytes));
  return scratch_;
}

Status CudaExecutor::commit_parameter(int64_t number) {
  if (feeds_->staging(number)) return {};  // The step copies it.
  return write_device(driver_,
                      program_->address_of(program_->parameter(number)),
                      scratch_, timeout_s_);
}

Result<std::span<const std::byte>> CudaExecutor::read(
    const Location& location) {
  if (error_) return pass(*error_);
  scratch_.resize(static_cast<size_t>(location.size_bytes));
  const DeviceWatch::Visit visit(watch_, kIssuing, "a copy from the device",
                                 -1);
  const Status done = driver_.check(
      driver_.copy_to_host(scratch_.data(), program_->address_of(location),
                           scratch_.size()),
      "cuMemcpyDtoH");
  if (!done) return pass(done.error());
  return scratch_;
}

Result<std::span<const std::byte>> CudaExecutor::read_parameter(
    int64_t number) {
  return read(program_->parameter(number));
}

Result<std::span<const std::byte>> CudaExecutor::read_output(int64_t number) {
  return read(program_->output(number));
}

void CudaExecutor::mark_step(int32_t step, bool warmup, int64_t start_ns,
                             int64_t end_ns) {
  injected_.mark_step(step, warmup, start_ns, end_ns);
  if (executable_ == nullptr || error_ || !is_graph_recorded_ ||
      injected_.is_recording())
    return;
  if (const Status made = instantiate(); !made) error_ = made.error();
}

// Launched one by one the middle third, a third before and one after; of a
// graph the last, since none may be recorded again (`instantiate`).
void CudaExecutor::leave_out_third(int32_t first, int32_t end) {
  const int32_t third = (end - first) / 3;
  if (wants_graph_) {
    injected_.leave_out_steps(end - third, std::numeric_limits<int32_t>::max());
  } else {
    injected_.leave_out_steps(first + third, first + 2 * third);
  }
}

Status CudaExecutor::run_step(int32_t step) {
  if (error_) return pass(*error_);
  marks_->reset();
  Status status = driver_.record(started_, compute_);
  if (!status) return give_up(status.error());
  // A graph made unrecorded has no true times (`instantiate`).
  if (executable_ != nullptr &&
      (is_graph_recorded_ || !injected_.is_recording())) {
    const DeviceWatch::Visit visit(watch_, kIssuing, "the launch of its graph",
                                   step);
    status =
        driver_.check(driver_.graph_launch(executable_.get(), compute_.get()),
                      "cuGraphLaunch");
  } else {
    status = issue(step);
  }
  if (status) status = driver_.record(ended_, compute_);
  if (status && meanwhile_) meanwhile_();
  if (status) status = wait_for_end(step);
  if (status) status = program_->host_failure();
  const bool is_first = !device_step_ns_;
  if (status) status = measure();
  if (status && is_first) marks_->thin_out(*device_step_ns_);
  if (status && wants_graph_ && executable_ == nullptr) status = capture(step);
  if (!status) return give_up(status.error());
  return {};
}

// Every later call gets the same error. The peers are not waited for, nor is a
// device that goes on although its collectives were ended.
Status CudaExecutor::give_up(Error error) {
  const double patience_s = is_overdue_ && !meets_peers() ? 0 : kRunDrySeconds;
  communicator_.abort();
  error_ = std::move(error);
  if (!runs_dry(patience_s)) driver_.abandon();
  return pass(*error_);
}

Status CudaExecutor::overdue(int32_t step) {
  is_overdue_ = true;
  const std::string where = marks_->describe(schedule_);
  return fail(
      ErrorKind::kDevice,
      "step {}: the device has not ended it after {} s{}{}; {}", step,
      timeout_s_, where.empty() ? "" : ": ", where,
      meets_peers()
          ? peers_ + " is silent, or --timeout is too short"
          : "a kernel that never ends, or --timeout is too short for the step");
}

// Few programs' graphs fail under CUPTI (tests/gpu/results of 12eda14).
Status CudaExecutor::failed(CUresult state, int32_t step) const {
  Error error = driver_.check(state, "cuEventQuery").error();
  if (executable_ != nullptr && is_graph_recorded_)
    error.message +=
        "; its graph was being recorded: --no-graph launches units one by one";
  return pass(error, fmt::format("step {}", step));
}

// Asks instead of sleeping in the driver: a lost peer must be noticed.
Status CudaExecutor::wait_for_end(int32_t step) {
  const int64_t begin_ns = Recorder::now_ns();
  int64_t next_poll_ns = begin_ns + kPollPeriodNs;
  for (;;) {
    const CUresult state = driver_.event_query(ended_.get());
    if (state == CUDA_SUCCESS) return {};
    if (state != CUDA_ERROR_NOT_READY) return failed(state, step);
    const int64_t now_ns = Recorder::now_ns();
    if (now_ns >= next_poll_ns) {
      const Status well = meets_peers() ? communicator_.poll() : Status();
      if (!well) return pass(well.error(), fmt::format("step {}", step));
      next_poll_ns = now_ns + kPollPeriodNs;
      if (static_cast<double>(now_ns - begin_ns) * 1e-9 > timeout_s_)
        return overdue(step);
    }
    std::this_thread::yield();
  }
}

Status CudaExecutor::measure() {
  float milliseconds = 0;
  Status read = driver_.check(
      driver_.event_elapsed_time(&milliseconds, started_.get(), ended_.get()),
      "cuEventElapsedTime");
  if (!read) return read;
  device_step_ns_ = std::llround(static_cast<double>(milliseconds) * 1e6);
  return {};
}

// After an eager step, in which libraries have loaded what they load lazily.
// Nothing runs: the streams' work becomes the graph's nodes.
Status CudaExecutor::capture(int32_t step) {
  Status status =
      driver_.check(driver_.stream_begin_capture(
                        compute_.get(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                    "cuStreamBeginCapture");
  if (!status) return status;
  const Status issued = issue(step);
  CUgraph graph = nullptr;
  status = driver_.check(driver_.stream_end_capture(compute_.get(), &graph),
                         "cuStreamEndCapture");
  if (graph != nullptr)
    graph_ = CudaGraph(graph, {&driver_, &Driver::graph_destroy});
  if (issued && status) status = instantiate();
  const Status& first = issued ? status : issued;
  if (!first) {
    return pass(first.error(),
                "the step cannot be captured as a graph (--no-graph does "
                "without)");
  }
  return {};
}

// Anew where a tracer is switched off: what it put into a graph goes on costing
// (gpt.1 6.64 ms for 6.22; made anew 6.74 for 6.64). Never where one is
// switched on again: launches of graphs made anew then failed
// (CUDA_ERROR_LAUNCH_FAILED in 5 of 8 runs of a program), and of others some
// kernel has times that cannot be (mlp.1: 136 ms). CUPTI 13.0.1;
// tests/gpu/results of 02773d2 and 12eda14.
Status CudaExecutor::instantiate() {
  is_graph_recorded_ = injected_.is_recording();
  CUgraphExec executable = nullptr;
  Status status =
      driver_.check(driver_.graph_instantiate(&executable, graph_.get(), 0),
                    "cuGraphInstantiate");
  if (!status) return status;
  executable_ = CudaGraphExecutable(
      executable, {&driver_, &Driver::graph_executable_destroy});
  status = driver_.check(driver_.graph_upload(executable, compute_.get()),
                         "cuGraphUpload");
  if (!status) return status;
  return driver_.synchronize(compute_.get(), timeout_s_);
}

}  // namespace reprise
