// Two threads walk their stream's units in order. Where a unit waits for the
// other stream, its thread sleeps until the count that the other publishes is
// high enough. Everything is bound before the first step: addresses, code,
// oneDNN primitives. With a communicator that does nothing (one rank)
// collectives run in their places on the one thread.
#include "runtime/cpu/executor.h"

#include <chrono>
#include <cstring>

#include "runtime/cpu/constants.h"
#include "runtime/process/thread_setup.h"

namespace reprise {
namespace {

constexpr uint32_t kComputeStream = 0;
constexpr uint32_t kCommunicationStream = 1;

}  // namespace

Executor::Executor(const Schedule& schedule, Communicator& communicator,
                   Recorder* recorder, Arena arena)
    : schedule_(schedule),
      communicator_(communicator),
      recorder_(recorder),
      arena_(std::move(arena)),
      waits_(make_stream_waits(schedule)),
      timed_(schedule, recorder != nullptr),
      parts_(recorder, kComputeStream),
      scratch_(waits_.compute.units.size()) {
  told_ns_.assign(waits_.compute.units.size(), 0);
}

Result<std::unique_ptr<Executor>> Executor::create(
    const Module& inlined, const Schedule& schedule,
    std::span<const KernelCode> kernels, Communicator& communicator,
    Recorder* recorder, const Options& options) {
  Result<Arena> arena =
      Arena::create(static_cast<size_t>(schedule.arena_bytes));
  if (!arena) return pass(arena.error());
  std::unique_ptr<Executor> executor(
      new Executor(schedule, communicator, recorder, std::move(*arena)));
  prepare_compute_thread();
  if (options.threads > 1) {
    executor->team_ =
        std::make_unique<ThreadTeam>(options.threads, &prepare_compute_thread);
  }
  Status status = executor->write_constants(inlined, options.rank);
  if (status) status = executor->bind(inlined, kernels, options);
  if (status) status = communicator.attach(executor->arena_.bytes());
  if (!status) return pass(status.error());
  if (!executor->waits_.communication.units.empty() &&
      !communicator.is_immediate()) {
    executor->communication_thread_ =
        std::thread([raw = executor.get()] { raw->communicate_forever(); });
  }
  // Threads inherit affinity, so ours is narrowed after the other exists.
  if (!options.cores.empty()) pin_this_thread(options.cores);
  return executor;
}

Executor::~Executor() {
  if (!communication_thread_.joinable()) return;
  stopping_.store(true, std::memory_order_relaxed);
  requested_.tell(++requests_);
  communication_thread_.join();
}

std::span<std::byte> Executor::bytes_of(const Location& location) const {
  const Buffer& buffer = schedule_.buffers[index_of(location.buffer)];
  return {arena_.data() + buffer.arena_offset + location.offset_bytes,
          static_cast<size_t>(location.size_bytes)};
}

std::span<std::byte> Executor::parameter(int64_t number) const {
  const BufferId id = schedule_.parameter_buffers[static_cast<size_t>(number)];
  const int64_t size = schedule_.buffers[index_of(id)].size_bytes;
  return bytes_of({.buffer = id, .offset_bytes = 0, .size_bytes = size});
}

std::span<std::byte> Executor::output(int64_t number) const {
  return bytes_of(schedule_.outputs[static_cast<size_t>(number)].location);
}

Status Executor::write_constants(const Module& inlined, int64_t rank) {
  for (size_t i = 0; i < schedule_.buffers.size(); ++i) {
    const Buffer& buffer = schedule_.buffers[i];
    if (buffer.kind != BufferKind::kConstant) continue;
    const Instruction& literal =
        inlined.entry_computation().at(buffer.constant);
    const Status written = write_constant(
        inlined, literal, {.rank = rank, .ranks = schedule_.ranks},
        bytes_of({.buffer = static_cast<BufferId>(i),
                  .offset_bytes = 0,
                  .size_bytes = buffer.size_bytes}));
    if (!written) return pass(written.error(), literal.name);
  }
  return {};
}

Status Executor::bind(const Module& inlined,
                      std::span<const KernelCode> kernels,
                      const Options& options) {
  REPRISE_CHECK(kernels.size() == schedule_.kernels.size());
  UnitContext context{
      .module = inlined,
      .schedule = schedule_,
      .kernels = {kernels.begin(), kernels.end()},
      .buffers = {},
      .team = {team_.get(), options.worth_sharing_ns, &sharing_, &trials_},
      .rank = options.rank,
      .collectives = &called_};
  called_.communicator = options.called;
  called_.parts = &parts_;
  for (const Buffer& buffer : schedule_.buffers)
    context.buffers.push_back(arena_.data() + buffer.arena_offset);
  for (size_t place = 0; place < waits_.compute.units.size(); ++place) {
    const UnitId id = waits_.compute.units[place];
    context.scratch = scratch_.of(place);
    const Status bound = calls_.bind(context, schedule_.units[index_of(id)]);
    if (!bound) return bound;
  }
  for (const UnitId id : waits_.communication.units) {
    const Unit& unit = schedule_.units[index_of(id)];
    const Status runs = communicator_.check(unit.collective);
    if (!runs) return pass(runs.error(), unit.name);
  }
  return scratch_.allocate(schedule_, arena_.data());
}

Status Executor::run_step(int32_t step) {
  if (team_ == nullptr || sharing_.is_over()) return run_streams(step);
  const auto start = std::chrono::steady_clock::now();
  Status ran = run_streams(step);
  sharing_.add((std::chrono::steady_clock::now() - start).count());
  return ran;
}

Status Executor::run_streams(int32_t step) {
  if (failed_.load(std::memory_order_acquire)) return pass(*error_);
  compute_.reset();
  communication_.reset();
  requested_step_ = step;
  ready_ns_ = recorder_ != nullptr ? Recorder::now_ns() : 0;
  immediate_ = 0;
  const uint32_t collectives =
      static_cast<uint32_t>(waits_.communication.units.size());
  if (!communication_thread_.joinable()) {
    Status computed = run_compute(step);
    if (computed) run_immediate_collectives(collectives, step);
    return computed;
  }
  requested_.tell(++requests_);
  Status computed = run_compute(step);
  if (!computed) {
    compute_.tell(Progress::kAll);
    return computed;
  }
  communication_.wait_until(collectives);
  if (failed_.load(std::memory_order_acquire)) return pass(*error_);
  return {};
}

Result<NonFinite> Executor::find_non_finite(int32_t step) {
  check_ = std::make_unique<FiniteCheck>(
      schedule_,
      [this](const Location& location) { return bytes_of(location); });
  const Status ran = run_step(step);
  const std::unique_ptr<FiniteCheck> check = std::move(check_);
  if (!ran) return pass(ran.error());
  return check->found();
}

Status Executor::run_compute(int32_t step) {
  const UnitSequence& walk = waits_.compute;
  // A unit starts when the one before ends, unless a thread is waited for or
  // woken between: reading the clock costs more than the way to the next unit.
  int64_t start = recorder_ != nullptr ? Recorder::now_ns() : 0;
  for (uint32_t i = 0; i < calls_.size(); ++i) {
    if (walk.wait_for[i] != 0) {
      wait_for_communication(walk.wait_for[i], walk.units[i], step);
      if (failed_.load(std::memory_order_acquire)) return pass(*error_);
      if (recorder_ != nullptr) start = Recorder::now_ns();
    }
    parts_.begin_unit(timed_.first_part(walk.units[i]),
                      timed_.part_count(walk.units[i]), step, start);
    if (!calls_.run(i)) {
      return tl::unexpected<Error>(failed_unit(walk.units[i], step));
    }
    if (check_ != nullptr) check_->look(walk.units[i]);
    if (recorder_ != nullptr) {
      const int64_t end = Recorder::now_ns();
      parts_.end_unit(end);
      told_ns_[i] = start = end;
    }
    if (!walk.tell[i]) continue;
    compute_.tell(i + 1);
    if (recorder_ != nullptr) start = Recorder::now_ns();
  }
  return {};
}

int32_t Executor::number_of(UnitId unit) const {
  return static_cast<int32_t>(timed_.first_part(unit));
}

Error Executor::failed_unit(UnitId unit, int32_t step) {
  const std::string& name = schedule_.units[index_of(unit)].name;
  if (!called_.error)
    return {ErrorKind::kDevice, fmt::format("{}: oneDNN failed", name)};
  // Peers may wait in collectives of the step.
  communicator_.abandon();
  return {called_.error->kind,
          fmt::format("step {}, {}/{}", step, name, called_.error->message)};
}

void Executor::wait_for_communication(uint32_t count, UnitId unit,
                                      int32_t step) {
  if (!communication_thread_.joinable())
    return run_immediate_collectives(count, step);
  if (communication_.count() >= count) return;
  const int64_t start = recorder_ != nullptr ? Recorder::now_ns() : 0;
  communication_.wait_until(count);
  if (recorder_ == nullptr) return;
  recorder_->record(kComputeStream, EventKind::kWait, number_of(unit), step,
                    start, start, Recorder::now_ns(), -1);
}

void Executor::communicate_forever() {
  flush_denormals();
  prefer_prompt_turns();
  for (uint32_t served = 0;; ++served) {
    requested_.wait_until(served + 1);
    if (stopping_.load(std::memory_order_relaxed)) return;
    run_communication(requested_step_);
    if (failed_.load(std::memory_order_relaxed)) return;
  }
}

void Executor::run_communication(int32_t step) {
  const UnitSequence& walk = waits_.communication;
  for (uint32_t i = 0; i < walk.units.size(); ++i) {
    if (walk.wait_for[i] != 0) {
      compute_.wait_until(walk.wait_for[i]);
      if (compute_.count() == Progress::kAll) return;
    }
    if (!run_collective(i, step)) return;
    // The last one is always told: the step ends with it.
    if (walk.tell[i] || i + 1 == walk.units.size()) communication_.tell(i + 1);
  }
}

void Executor::run_immediate_collectives(uint32_t count, int32_t step) {
  while (immediate_ < count) run_collective(immediate_++, step);
}

bool Executor::run_collective(uint32_t place, int32_t step) {
  const UnitSequence& walk = waits_.communication;
  const Unit& unit = schedule_.units[index_of(walk.units[place])];
  const uint32_t needed = walk.wait_for[place];
  if (needed != 0) ready_ns_ = told_ns_[needed - 1];
  const int64_t start = recorder_ != nullptr ? Recorder::now_ns() : 0;
  arrays_.clear();
  for (const CollectiveArray& array : unit.collective.arrays)
    arrays_.push_back(
        {bytes_of(array.input).data(), bytes_of(array.output).data()});
  const Status done = communicator_.run(unit.collective, arrays_, 0);
  if (!done) {
    fail_communication(
        {done.error().kind, fmt::format("step {}, {}: {}", step, unit.name,
                                        done.error().message)});
    return false;
  }
  if (check_ != nullptr) check_->look(walk.units[place]);
  if (recorder_ != nullptr) {
    recorder_->record(kCommunicationStream, EventKind::kCollective,
                      number_of(walk.units[place]), step, ready_ns_, start,
                      Recorder::now_ns(), sequence_);
  }
  ++sequence_;
  return true;
}

void Executor::fail_communication(Error error) {
  if (called_.communicator != nullptr) called_.communicator->abandon();
  error_ = std::move(error);
  failed_.store(true, std::memory_order_release);
  communication_.tell(Progress::kAll);
}

}  // namespace reprise
