#include "replay/analysis/device_work.h"

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <utility>

#include "data/median.h"
#include "data/trace/call_index.h"
#include "replay/analysis/own_time.h"
#include "replay/collectives/collective_description.h"

namespace reprise {
namespace {

std::optional<WorkClass> class_of(EventKind kind) {
  switch (kind) {
    case EventKind::kCompute:
      return WorkClass::kCompute;
    case EventKind::kCollective:
      return WorkClass::kCommunication;
    case EventKind::kCopy:
    case EventKind::kMemset:
    case EventKind::kFeed:
      return WorkClass::kMemory;
    default:
      return std::nullopt;
  }
}

class Collector {
 public:
  Collector(const Trace& trace, uint32_t rank) : trace_(trace) {
    work_.rank = rank;
    std::tie(first_, last_) = events_of_rank(trace, rank);
  }

  RankWork run() {
    add_device_events();
    if (!has_collective_) add_host_collectives();
    if (!has_device_) add_host_operators();
    // Of two that start together the longer one is outside.
    const auto before = [](const DeviceEvent& a, const DeviceEvent& b) {
      return std::tie(a.start_ns, a.stream, b.end_ns) <
             std::tie(b.start_ns, b.stream, a.end_ns);
    };
    if (!std::is_sorted(work_.events.begin(), work_.events.end(), before)) {
      std::stable_sort(work_.events.begin(), work_.events.end(), before);
    }
    if (work_.host_only) {
      leave_out_parts();
      take_out_nested();
      take_out_waits();
    }
    find_launches();
    find_steps();
    return std::move(work_);
  }

 private:
  bool on_host(const Event& event) const {
    return trace_.streams[event.stream].kind == StreamKind::kHostThread;
  }

  void add(size_t place, WorkClass work) {
    const Event& event = trace_.events[place];
    DeviceEvent added;
    added.start_ns = clamped_time(event.start_ns);
    added.end_ns = clamped_time(event.end_ns);
    added.own_ns = added.end_ns - added.start_ns;
    added.event = static_cast<uint32_t>(place);
    added.stream = event.stream;
    added.work = work;
    added.beside = is_posted_message(trace_, event);
    work_.events.push_back(added);
  }

  void add_device_events() {
    for (size_t i = first_; i < last_; ++i) {
      const std::optional<WorkClass> work = class_of(trace_.events[i].kind);
      if (!work || on_host(trace_.events[i])) continue;
      add(i, *work);
      has_device_ = true;
      has_collective_ |= work == WorkClass::kCommunication;
    }
  }

  void add_host_collectives() {
    for (size_t i = first_; i < last_; ++i) {
      const Event& event = trace_.events[i];
      if (event.kind == EventKind::kCollective) {
        add(i, WorkClass::kCommunication);
      }
    }
  }

  void add_host_operators() {
    for (size_t i = first_; i < last_; ++i) {
      const EventKind kind = trace_.events[i].kind;
      if (kind == EventKind::kHostOp || kind == EventKind::kCompute) {
        add(i, WorkClass::kCompute);
        work_.host_only = true;
      }
    }
  }

  /// What a thread does within a collective that it runs is part of that.
  void leave_out_parts() {
    std::vector<int64_t> until_ns(trace_.streams.size(), -kLatestTime);
    std::erase_if(work_.events, [&](const DeviceEvent& event) {
      int64_t& end_ns = until_ns[event.stream];
      const bool part = event.end_ns <= end_ns;
      if (event.work == WorkClass::kCommunication && !event.beside)
        end_ns = std::max(end_ns, event.end_ns);
      return part && event.work == WorkClass::kCompute;
    });
  }

  /// Ranges nest on their thread: each takes its time out of its parent's.
  void take_out_nested() {
    reprise::take_out_nested(work_.events, trace_.streams.size(),
                             [](const DeviceEvent& event) {
                               return event.beside ? nullptr : &event;
                             });
  }

  void take_out_waits() {
    work_.waits = operator_waits(trace_, first_, last_);
    std::map<uint32_t, int64_t> waited_ns;  // By operator.
    for (OperatorWait& wait : work_.waits) {
      wait.start_ns = clamped_time(wait.start_ns);
      wait.end_ns = clamped_time(wait.end_ns);
      waited_ns[wait.within] += wait.end_ns - wait.start_ns;
    }
    if (waited_ns.empty()) return;
    for (DeviceEvent& event : work_.events) {
      const auto waited = waited_ns.find(event.event);
      if (waited != waited_ns.end()) event.own_ns -= waited->second;
    }
  }

  bool waits_for_device(const Event& event) {
    const size_t name = index_of(event.name);
    if (is_wait_.empty()) is_wait_.assign(trace_.strings.size(), 0);
    if (is_wait_[name] == 0) {
      const std::string& text = trace_.strings[name];
      const bool waits =  // cudaDevice…, hipStream…, cuCtx…, zeEventHost…
          text.find("Synchronize") != std::string::npos ||
          text == "urQueueFinish" || text == "urEventWait";
      is_wait_[name] = waits ? 2 : 1;
    }
    return is_wait_[name] == 2;
  }

  void find_launches() {
    for (size_t i = first_; i < last_; ++i) {
      const Event& event = trace_.events[i];
      if (event.kind == EventKind::kRuntime && waits_for_device(event)) {
        work_.synchronizations.push_back(
            {clamped_time(event.start_ns), clamped_time(event.end_ns)});
      }
    }
    const CallIndex calls(
        std::span(trace_.events).subspan(first_, last_ - first_),
        static_cast<uint32_t>(first_));
    for (DeviceEvent& event : work_.events) tie_launch(event, calls);
  }

  void tie_launch(DeviceEvent& event, const CallIndex& calls) {
    const Event& recorded = trace_.events[event.event];
    const bool by_trainer =
        trace_.streams[event.stream].kind == StreamKind::kTrainer;
    const uint32_t call =
        by_trainer ? CallIndex::kNoCall : calls.of(recorded.correlation);
    if (call != CallIndex::kNoCall) {
      event.launch = call;
      event.launch_ns = clamped_time(trace_.events[call].start_ns);
      event.call_end_ns = clamped_time(trace_.events[call].end_ns);
      return;
    }
    if (by_trainer || recorded.enqueue_ns < recorded.start_ns) {
      event.launch_ns = clamped_time(recorded.enqueue_ns);
    }
  }

  void find_steps() {
    for (const StepMark& mark : trace_.steps) {
      if (mark.rank != work_.rank) continue;
      work_.steps.push_back(mark);
      work_.steps.back().start_ns = clamped_time(mark.start_ns);
      work_.steps.back().end_ns = clamped_time(mark.end_ns);
    }
    std::stable_sort(work_.steps.begin(), work_.steps.end(),
                     [](const StepMark& a, const StepMark& b) {
                       return a.start_ns < b.start_ns;
                     });
    const auto last_warmup =
        std::find_if(work_.steps.rbegin(), work_.steps.rend(),
                     [](const StepMark& step) { return step.warmup; });
    if (last_warmup != work_.steps.rend() &&
        last_warmup != work_.steps.rbegin()) {
      work_.warm_from_ns = last_warmup->end_ns;
    }
    for (DeviceEvent& event : work_.events) {
      const int64_t at = work_.host_only ? event.start_ns : event.launch_ns;
      if (at != DeviceEvent::kNoLaunch) event.step = step_at(work_.steps, at);
    }
  }

  const Trace& trace_;
  RankWork work_;
  size_t first_ = 0, last_ = 0;
  bool has_device_ = false, has_collective_ = false;
  std::vector<uint8_t> is_wait_;  ///< [string] 0 unknown, 1 no, 2 yes.
};

}  // namespace

int32_t step_at(const std::vector<StepMark>& steps, int64_t time_ns) {
  const auto after = std::partition_point(
      steps.begin(), steps.end(),
      [&](const StepMark& m) { return m.start_ns <= time_ns; });
  if (after == steps.begin()) return -1;
  const auto mark = after - 1;
  return time_ns < mark->end_ns ? static_cast<int32_t>(mark - steps.begin())
                                : -1;
}

std::pair<size_t, size_t> events_of_rank(const Trace& trace, uint32_t rank) {
  const auto first = std::partition_point(
      trace.events.begin(), trace.events.end(),
      [&](const Event& event) { return event.rank < rank; });
  const auto last = std::partition_point(
      first, trace.events.end(),
      [&](const Event& event) { return event.rank == rank; });
  return {static_cast<size_t>(first - trace.events.begin()),
          static_cast<size_t>(last - trace.events.begin())};
}

int32_t step_of(const RankWork& work, const DeviceEvent& event) {
  if (event.step >= 0 || event.launch_ns != DeviceEvent::kNoLaunch) {
    return event.step;
  }
  return step_at(work.steps, event.start_ns);
}

std::vector<StepMark> device_steps(const RankWork& work) {
  std::vector<StepMark> steps = work.steps;
  if (work.host_only) return steps;
  for (const DeviceEvent& event : work.events) {
    if (event.step < 0) continue;
    StepMark& step = steps[static_cast<size_t>(event.step)];
    step.end_ns = std::max(step.end_ns, event.end_ns);
  }
  for (size_t at = 1; at < steps.size(); ++at) {
    // Marks may lie in each other, and one without work of its own in
    // another's.
    if (work.steps[at].start_ns < work.steps[at - 1].end_ns) continue;
    steps[at].start_ns =
        std::clamp(steps[at - 1].end_ns, steps[at].start_ns, steps[at].end_ns);
  }
  return steps;
}

int64_t between_steps_ns(const std::vector<StepMark>& steps) {
  std::vector<int64_t> between_ns;
  for (size_t at = 1; at < steps.size(); ++at) {
    const StepMark &step = steps[at - 1], &next = steps[at];
    if (step.rank == next.rank && step.step + 1 == next.step)
      between_ns.push_back(next.start_ns - step.end_ns);
  }
  return lower_median(std::move(between_ns));
}

RankWork device_work(const Trace& trace, uint32_t rank) {
  return Collector(trace, rank).run();
}

}  // namespace reprise
