// What a step enqueues: units in the schedule's order, each watched while the
// driver has it and marked once its stream has passed it. Host-staged
// collectives, which block, are enqueued by a thread of their own.
#include <utility>

#include "runtime/cuda/cuda_executor.h"
#include "runtime/process/thread_setup.h"

namespace reprise {
namespace {

constexpr uint32_t kCommunicationStream = 1;  ///< Of the recorder.

}  // namespace

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
    for (uint32_t i = 0; i < units && status; ++i)
      status = issue_compute(i, step);
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
  for (size_t i = 0; i < schedule_.units.size() && status; ++i) {
    const auto id = static_cast<UnitId>(i);
    if (schedule_.units[i].stream == Stream::kCompute) {
      status = issue_compute(computing++, step);
    } else if (communicates_) {
      status = issue_collective(communicating++, step);
    } else {  // A rank that is alone copies its operands.
      status = feeds_->wait_before(id, compute_);
      if (status) status = program_->enqueue(id, compute_.get());
    }
  }
  return status;
}

Status CudaExecutor::issue_compute(uint32_t place, int32_t step) {
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
  visit_unit(step, index_of(id));
  {
    const UnitScope scope(injected_, index_of(id));
    status = program_->enqueue(id, compute_.get());
  }
  visit_.reset();
  if (status) marks_->ended(Stream::kCompute, place, compute_);
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
  const DeviceWatch::Visit visit(watch_, DeviceWatch::kCommunicating, step,
                                 index_of(id));
  if (timed) status = driver_.synchronize(communication_.get(), timeout_s_);
  const int64_t start_ns = timed ? Recorder::now_ns() : 0;
  if (status) {
    const UnitScope scope(injected_, index_of(id));
    std::vector<ArrayAddresses> arrays;
    for (const CollectiveArray& array : unit.collective.arrays) {
      arrays.push_back({program_->address_of(array.input),
                        program_->address_of(array.output)});
    }
    status =
        communicator_.enqueue(unit.collective, arrays, communication_.get());
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
  marks_->ended(Stream::kCommunication, place, communication_);
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

}  // namespace reprise
