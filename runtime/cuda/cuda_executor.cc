// A step forks the copy and communication streams from the compute stream by an
// event and joins them at its end. Units are enqueued in the schedule's order,
// so that an event is recorded before it is waited for; with host-staged
// collectives, which block, a second thread enqueues the communication stream,
// and both tell each other how far they are. The first step runs eagerly, so
// that libraries load what they load lazily, and is then captured; later ones
// are a single graph launch. The end is polled, not slept for, since a lost
// peer must be noticed.
#include "runtime/cuda/cuda_executor.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "runtime/process/thread_setup.h"

namespace reprise {
namespace {

constexpr uint32_t kCommunicationStream = 1;  ///< Of the recorder.
/// Between two questions to the communicator while a step runs.
constexpr int64_t kPollPeriodNs = 2'000'000;

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
      waits_(make_stream_waits(schedule)) {
  communicates_ =
      !waits_.communication.units.empty() && !communicator.is_immediate();
  wants_graph_ =
      options.graph && !(communicates_ && communicator.is_host_staged());
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
  Status status = executor->make_streams();
  if (status) status = executor->attach_communicator();
  if (!status) return pass(status.error());
  if (executor->communicates_ && communicator.is_host_staged()) {
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
  for (const CudaStream* stream : {&compute_, &communication_, &copy_}) {
    if (*stream != nullptr) driver_.stream_synchronize(stream->get());
  }
  injected_.flush();
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
  size_t largest_bytes = 0;
  for (const UnitId id : waits_.communication.units) {
    const Unit& unit = schedule_.units[index_of(id)];
    const Status runs = communicator_.check(unit.collective);
    if (!runs) return pass(runs.error(), unit.name);
    largest_bytes = std::max(largest_bytes, touched_bytes(unit.collective));
  }
  // After all checks, which are alike on all ranks: nobody waits in vain.
  for (const UnitId id : waits_.communication.units) {
    const Unit& unit = schedule_.units[index_of(id)];
    const Status joined = communicator_.join(unit.collective);
    if (!joined) return pass(joined.error(), unit.name);
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
  return write_device(
      driver_, program_->address_of(program_->parameter(number)), scratch_);
}

Result<std::span<const std::byte>> CudaExecutor::read(
    const Location& location) {
  if (error_) return pass(*error_);
  scratch_.resize(static_cast<size_t>(location.size_bytes));
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
}

Status CudaExecutor::run_step(int32_t step) {
  if (error_) return pass(*error_);
  Status status = driver_.record(started_, compute_);
  if (!status) return give_up(status.error());
  if (executable_ != nullptr) {
    status =
        driver_.check(driver_.graph_launch(executable_.get(), compute_.get()),
                      "cuGraphLaunch");
  } else {
    status = issue(step);
  }
  if (status) status = driver_.record(ended_, compute_);
  if (status && meanwhile_) meanwhile_();
  if (status) status = wait_for_end(step);
  if (status) status = measure();
  if (status && wants_graph_ && executable_ == nullptr) status = capture(step);
  if (!status) return give_up(status.error());
  return {};
}

// Every later call gets the same error. The peers are not waited for.
Status CudaExecutor::give_up(Error error) {
  communicator_.abort();
  error_ = std::move(error);
  return pass(*error_);
}

// Copies the batch beside whatever does not need it yet.
Status CudaExecutor::begin_step() {
  Status status = driver_.record(begun_, compute_);
  if (status) status = driver_.wait(copy_, begun_);
  if (status && communicates_) status = driver_.wait(communication_, begun_);
  if (status) status = feeds_->copy(copy_);
  if (status) status = driver_.record(fed_, copy_);
  return status;
}

Status CudaExecutor::issue(int32_t step) {
  Status status = begin_step();
  if (!status) return status;
  if (!communication_thread_.joinable()) {
    status = issue_units(step);
    if (status && communicates_)
      status = driver_.record(communicated_, communication_);
  } else {
    compute_issued_.reset();
    communication_issued_.reset();
    request_.step = step;
    requested_.tell(++requests_);
    const auto units = static_cast<uint32_t>(waits_.compute.units.size());
    for (uint32_t i = 0; i < units && status; ++i) status = issue_compute(i);
    // An error of ours must not leave the other thread waiting, nor it us.
    if (!status) compute_issued_.tell(Progress::kAll);
    communication_issued_.wait_until(
        static_cast<uint32_t>(waits_.communication.units.size()));
    if (communication_error_) return pass(*communication_error_);
  }
  if (status) status = join_streams();
  return status;
}

Status CudaExecutor::join_streams() {
  Status status = driver_.wait(compute_, fed_);
  if (status && communicates_) status = driver_.wait(compute_, communicated_);
  return status;
}

// In the schedule's order, so that an event is recorded before it is waited
// for.
Status CudaExecutor::issue_units(int32_t step) {
  uint32_t computing = 0, communicating = 0;
  Status status;
  for (const Unit& unit : schedule_.units) {
    if (unit.stream == Stream::kCompute) {
      status = issue_compute(computing++);
    } else if (communicates_) {
      status = issue_collective(communicating++, step);
    }
    if (!status) return status;
  }
  return status;
}

Status CudaExecutor::issue_compute(uint32_t place) {
  const UnitSequence& walk = waits_.compute;
  const UnitId id = walk.units[place];
  Status status;
  if (const uint32_t count = walk.wait_for[place];
      count != 0 && communicates_) {
    if (communication_thread_.joinable()) {
      communication_issued_.wait_until(count);
      // Only then is the error written for good.
      if (communication_issued_.count() == Progress::kAll)
        return pass(*communication_error_);
    }
    status = driver_.wait(compute_, communication_told_[count - 1]);
  }
  if (status) status = feeds_->wait_before(id, compute_);
  if (!status) return status;
  {
    const UnitScope scope(injected_, index_of(id));
    status = program_->enqueue(id, compute_.get());
  }
  if (status && walk.tell[place] && communicates_) {
    status = driver_.record(compute_told_[place], compute_);
    if (status && communication_thread_.joinable())
      compute_issued_.tell(place + 1);
  }
  return status;
}

Status CudaExecutor::issue_collective(uint32_t place, int32_t step) {
  const UnitSequence& walk = waits_.communication;
  const UnitId id = walk.units[place];
  const Unit& unit = schedule_.units[index_of(id)];
  Status status;
  if (const uint32_t count = walk.wait_for[place]; count != 0)
    status = driver_.wait(communication_, compute_told_[count - 1]);
  if (status) status = feeds_->wait_before(id, communication_);
  if (!status) return status;
  // Host-staged collectives happen while they are enqueued, so the host's
  // clock sees them, once their operands are there.
  const bool timed = recorder_ != nullptr && communication_thread_.joinable();
  const int64_t asked_ns = timed ? Recorder::now_ns() : 0;
  if (timed) {
    status = driver_.check(driver_.stream_synchronize(communication_.get()),
                           "cuStreamSynchronize");
  }
  const int64_t start_ns = timed ? Recorder::now_ns() : 0;
  if (status) {
    const UnitScope scope(injected_, index_of(id));
    status = communicator_.enqueue(
        unit.collective, program_->address_of(unit.collective.input),
        program_->address_of(unit.collective.output), communication_.get());
  }
  if (!status) {
    return pass(status.error(), fmt::format("step {}, {}", step, unit.name));
  }
  if (timed) {
    recorder_->record(kCommunicationStream, EventKind::kCollective,
                      static_cast<int32_t>(index_of(id)), step, asked_ns,
                      start_ns, Recorder::now_ns(), sequence_);
  }
  ++sequence_;
  return walk.tell[place]
             ? driver_.record(communication_told_[place], communication_)
             : Status();
}

void CudaExecutor::communicate_forever() {
  prefer_prompt_turns();
  const Status current = context_->make_current();
  if (!current) communication_error_ = current.error();
  for (uint32_t served = 0;; ++served) {
    requested_.wait_until(served + 1);
    if (request_.stopping) return;
    if (!communication_error_) run_communication(request_.step);
    if (communication_error_) communication_issued_.tell(Progress::kAll);
  }
}

void CudaExecutor::run_communication(int32_t step) {
  const UnitSequence& walk = waits_.communication;
  const auto units = static_cast<uint32_t>(walk.units.size());
  for (uint32_t i = 0; i < units; ++i) {
    compute_issued_.wait_until(walk.wait_for[i]);
    Status status;
    if (compute_issued_.count() == Progress::kAll) {
      // Compute has its own error to tell; this one only ends the walk.
      communication_issued_.tell(Progress::kAll);
      return;
    }
    status = issue_collective(i, step);
    if (status && i + 1 == units)
      status = driver_.record(communicated_, communication_);
    if (!status) {
      communication_error_ = status.error();
      return;
    }
    if (walk.tell[i] || i + 1 == units) communication_issued_.tell(i + 1);
  }
}

// Asks instead of sleeping in the driver: a lost peer must be noticed.
Status CudaExecutor::wait_for_end(int32_t step) {
  const int64_t begin_ns = Recorder::now_ns();
  int64_t next_poll_ns = begin_ns + kPollPeriodNs;
  for (;;) {
    const CUresult state = driver_.event_query(ended_.get());
    if (state == CUDA_SUCCESS) return {};
    if (state != CUDA_ERROR_NOT_READY)
      return pass(driver_.check(state, "cuEventQuery").error(),
                  fmt::format("step {}", step));
    const int64_t now_ns = Recorder::now_ns();
    if (communicates_ && now_ns >= next_poll_ns) {
      const Status well = communicator_.poll();
      if (!well) return pass(well.error(), fmt::format("step {}", step));
      next_poll_ns = now_ns + kPollPeriodNs;
      if (static_cast<double>(now_ns - begin_ns) * 1e-9 > timeout_s_) {
        return fail(ErrorKind::kDevice,
                    "step {}: the device has not ended it after {} s; {} is "
                    "silent, or --timeout is too short",
                    step, timeout_s_, peers_);
      }
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
  if (graph != nullptr) graph_ = CudaGraph(graph, {driver_.graph_destroy});
  CUgraphExec executable = nullptr;
  if (issued && status) {
    status = driver_.check(driver_.graph_instantiate(&executable, graph, 0),
                           "cuGraphInstantiate");
  }
  const Status& first = issued ? status : issued;
  if (!first) {
    return pass(first.error(),
                "the step cannot be captured as a graph (--no-graph does "
                "without)");
  }
  executable_ =
      CudaGraphExecutable(executable, {driver_.graph_executable_destroy});
  status = driver_.check(driver_.graph_upload(executable, compute_.get()),
                         "cuGraphUpload");
  if (!status) return status;
  return driver_.check(driver_.stream_synchronize(compute_.get()),
                       "cuStreamSynchronize");
}

}  // namespace reprise
