#include "replay/analysis/breakdown.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

namespace reprise {

namespace {

/// The union of what each thread computes while it neither waits nor runs a
/// collective.
IntervalSet computed_on_host(const RankWork& work,
                             std::span<const DeviceEvent> part) {
  struct Thread {
    std::vector<Interval> compute, other;
  };
  std::map<uint32_t, Thread> threads;
  for (const DeviceEvent& event : part) {
    if (event.beside) continue;
    Thread& thread = threads[event.stream];
    (event.work == WorkClass::kCompute ? thread.compute : thread.other)
        .push_back({event.start_ns, event.end_ns});
  }
  for (const OperatorWait& wait : work.waits)
    threads[wait.stream].other.push_back({wait.start_ns, wait.end_ns});
  std::vector<Interval> all;
  for (auto& each : threads) {
    const IntervalSet own =
        subtracted(IntervalSet(std::move(each.second.compute)),
                   IntervalSet(std::move(each.second.other)));
    all.insert(all.end(), own.intervals().begin(), own.intervals().end());
  }
  return IntervalSet(std::move(all));
}

}  // namespace

DeviceUnions::DeviceUnions(const RankWork& work,
                           std::span<const DeviceEvent> part) {
  std::vector<Interval> compute, communication, memory;
  if (!part.empty()) span_ = {part[0].start_ns, part[0].end_ns};
  for (const DeviceEvent& event : part) {
    std::vector<Interval>& intervals =
        event.work == WorkClass::kCompute         ? compute
        : event.work == WorkClass::kCommunication ? communication
                                                  : memory;
    intervals.push_back({event.start_ns, event.end_ns});
    span_.start_ns = std::min(span_.start_ns, event.start_ns);
    span_.end_ns = std::max(span_.end_ns, event.end_ns);
  }
  compute_ = work.host_only ? computed_on_host(work, part)
                            : IntervalSet(std::move(compute));
  communication_ = IntervalSet(std::move(communication));
  memory_ = IntervalSet(std::move(memory));
  overlapped_ = intersected(communication_, compute_);
  busy_ = united(united(compute_, communication_), memory_);
}

Breakdown DeviceUnions::within(int64_t start_ns, int64_t end_ns) const {
  const int64_t start = clamped_time(start_ns);
  const int64_t end = std::max(start, clamped_time(end_ns));
  const auto length = [&](const IntervalSet& set) {
    return set.length_within_ns(start, end);
  };
  Breakdown result;
  result.window_start_ns = start;
  result.window_ns = end - start;
  result.compute_ns = length(compute_);
  result.communication_ns = length(communication_);
  result.memory_ns = length(memory_);
  result.overlapped_ns = length(overlapped_);
  result.exposed_ns = result.communication_ns - result.overlapped_ns;
  const int64_t busy_ns = length(busy_);
  result.idle_ns = result.window_ns - busy_ns;
  result.exclusive = {
      .compute_ns = result.compute_ns,
      .exposed_ns = result.exposed_ns,
      .memory_ns = busy_ns - result.compute_ns - result.exposed_ns,
      .idle_ns = result.idle_ns};
  return result;
}

Breakdown DeviceUnions::whole() const {
  return within(span_.start_ns, span_.end_ns);
}

Breakdown break_down(const Trace& trace, uint32_t rank, int64_t start_ns,
                     int64_t end_ns) {
  return DeviceUnions(device_work(trace, rank)).within(start_ns, end_ns);
}

Breakdown break_down(const Trace& trace, uint32_t rank) {
  return DeviceUnions(device_work(trace, rank)).whole();
}

Breakdown break_down(const Schedule& schedule,
                     const std::vector<UnitTime>& times, int64_t step_ns) {
  std::vector<DeviceEvent> events(times.size());
  for (size_t unit = 0; unit < times.size(); ++unit) {
    events[unit].start_ns = times[unit].start_ns;
    events[unit].end_ns = times[unit].end_ns;
    if (schedule.units[unit].stream == Stream::kCommunication) {
      events[unit].work = WorkClass::kCommunication;
    }
  }
  return DeviceUnions(events).within(0, step_ns);
}

std::vector<Breakdown> break_down_launched(const RankWork& work) {
  std::vector<std::vector<DeviceEvent>> launched(work.steps.size());
  for (const DeviceEvent& event : work.events) {
    if (event.step >= 0) {
      launched[static_cast<size_t>(event.step)].push_back(event);
    }
  }
  std::vector<Breakdown> result;
  result.reserve(launched.size());
  for (const std::vector<DeviceEvent>& events : launched) {
    result.push_back(DeviceUnions(work, events).whole());
  }
  return result;
}

}  // namespace reprise
