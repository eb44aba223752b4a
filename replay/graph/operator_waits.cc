// One walk over each thread's nested ranges cuts them into stretches that are a
// range's own; the collectives of the process say which of these were waits.
#include "replay/graph/operator_waits.h"

#include <algorithm>
#include <limits>
#include <map>
#include <span>
#include <string_view>
#include <tuple>

#include "data/integers.h"
#include "data/trace/intervals.h"
#include "replay/collectives/collective_description.h"

namespace reprise {
namespace {

constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

// A collective must run for this part of a wait.
constexpr int64_t kInFlightPart = 2;

// A stretch that goes on for longer than this part of it, and this long, after
// its collective was work beside it.
constexpr int64_t kLongestPartAfter = 10;
constexpr int64_t kLongestAfter = 1'000'000;

// Operators that only wait, for collectives or (XLA's, TensorFlow's) for any
// work. TensorFlow's call a function, which its executor runs on other threads
// unless it is within them. Source: torch/csrc/distributed/c10d/Functional.cpp
// of PyTorch 2.15; xla/pjrt and xla/service/rendezvous.cc of JAX 0.10.2;
// tensorflow/core, common_runtime/eager/kernel_and_device.cc and
// data/captured_function.cc of TensorFlow 2.21.
bool awaits_collective(std::string_view name) {
  return name.ends_with("c10d_functional::wait_tensor");
}
bool awaits_work(std::string_view name) {
  return name.starts_with("Wait for ") || name.starts_with("Wait: ") ||
         name.ends_with("(wait for completion)") ||
         name == "KernelAndDeviceFunc::Run" ||
         name == "InstantiatedCapturedFunction::RunWithBorrowedArgs";
}

// Autograd's engine around a node: its hooks run here.
bool runs_hooks(std::string_view name) {
  return name.starts_with("autograd::engine::evaluate_function");
}

bool calls_collectives(std::string_view name) {
  return name.starts_with("c10d::") || name.starts_with("_c10d_functional::");
}

// The collectives of one process's host threads.
class HostCollectives {
 public:
  // `stream`: the thread that runs it, kNone of a message.
  void add(uint32_t index, const Event& event, uint32_t stream) {
    calls_.push_back({event.end_ns, event.start_ns, stream, index});
  }
  void finish() {
    std::sort(calls_.begin(), calls_.end());
    std::vector<Interval> times;
    times.reserve(calls_.size());
    for (const Call& call : calls_)
      times.push_back({call.start_ns, call.end_ns});
    in_flight_ = IntervalSet(std::move(times));
  }

  struct Awaited {
    uint32_t event = OperatorWait::kNoCollective;
    int64_t end_ns = 0;
    bool may_fill = false;  // The stretch may have been a wait for it.
  };

  // The last one that ended in (start, end] and that the thread did not run.
  Awaited within(const Interval& stretch, uint32_t stream) const {
    auto call = std::upper_bound(calls_.begin(), calls_.end(), stretch.end_ns,
                                 [](int64_t time_ns, const Call& candidate) {
                                   return time_ns < candidate.end_ns;
                                 });
    const auto is_own = [&](const Call& candidate) {
      return candidate.stream == stream && candidate.end_ns > stretch.start_ns;
    };
    while (call != calls_.begin() && is_own(*std::prev(call))) --call;
    if (call == calls_.begin()) return {};
    const Call& last = *std::prev(call);
    const int64_t lasts_ns = saturating_subtract(last.end_ns, stretch.start_ns);
    if (lasts_ns <= 0) return {};
    return {.event = last.event,
            .end_ns = last.end_ns,
            .may_fill =
                lasts_ns >= kShortestHostWait && ends_with(stretch, last) &&
                in_flight_.length_within_ns(stretch.start_ns, last.end_ns) >=
                    lasts_ns / kInFlightPart};
  }

 private:
  struct Call {
    int64_t end_ns = 0, start_ns = 0;
    uint32_t stream = 0, event = 0;
    auto operator<=>(const Call&) const = default;
  };

  static bool ends_with(const Interval& stretch, const Call& call) {
    const int64_t part_ns =
        saturating_subtract(stretch.end_ns, stretch.start_ns) /
        kLongestPartAfter;
    return saturating_subtract(stretch.end_ns, call.end_ns) <=
           std::max(kLongestAfter, part_ns);
  }

  std::vector<Call> calls_;  // By end.
  IntervalSet in_flight_;
};

// What a rank's events come to, before its threads are walked.
struct HostRows {
  std::map<uint32_t, std::vector<uint32_t>> events;  // [stream], by start.
  std::map<int64_t, HostCollectives> collectives;    // [process]
};

bool may_wait(const Trace& trace, size_t first, size_t last) {
  bool works_on_device = false;
  for (size_t index = first; index < last; ++index) {
    const Event& event = trace.events[index];
    const bool on_host =
        trace.streams[event.stream].kind == StreamKind::kHostThread;
    if (on_host && event.kind == EventKind::kCollective) return true;
    works_on_device |= !on_host;
  }
  return !works_on_device;
}

bool is_walked(const Event& event) {
  return event.kind == EventKind::kHostOp ||
         event.kind == EventKind::kAnnotation ||
         event.kind == EventKind::kRuntime ||
         event.kind == EventKind::kCollective;
}

HostRows rows_of(const Trace& trace, size_t first, size_t last) {
  HostRows rows;
  std::vector<uint32_t>* row = nullptr;
  uint32_t stream = kNone;
  for (size_t index = first; index < last; ++index) {
    const Event& event = trace.events[index];
    const StreamInfo& info = trace.streams[event.stream];
    if (info.kind != StreamKind::kHostThread || !is_walked(event)) continue;
    if (event.stream != stream) row = &rows.events[stream = event.stream];
    const bool is_message = is_posted_message(trace, event);
    if (!is_message) row->push_back(static_cast<uint32_t>(index));
    if (event.kind == EventKind::kCollective) {
      rows.collectives[info.process].add(static_cast<uint32_t>(index), event,
                                         is_message ? kNone : event.stream);
    }
  }
  for (auto& each : rows.collectives) each.second.finish();
  return rows;
}

// Walks one thread's events by start, a stack of open ranges in hand.
class StretchWalk {
 public:
  StretchWalk(const Trace& trace, const HostCollectives& collectives,
              std::vector<OperatorWait>& waits)
      : trace_(trace), collectives_(collectives), waits_(waits) {}

  void run(std::span<const uint32_t> events) {
    for (const uint32_t index : events) {
      const Event& event = trace_.events[index];
      close_until(event.start_ns);
      if (!open_.empty()) own_time(event.start_ns);
      cursor_ns_ = std::max(cursor_ns_, event.start_ns);
      const bool is_operator = event.kind == EventKind::kHostOp;
      const uint32_t within = is_operator || open_.empty()
                                  ? is_operator ? index : kNone
                                  : open_.back().within;
      open_.push_back({.event = index,
                       .within = within,
                       .end_ns = std::max(event.start_ns, event.end_ns)});
    }
    close_until(std::numeric_limits<int64_t>::max());
  }

 private:
  struct Open {
    uint32_t event = 0;
    uint32_t within = kNone;  // The innermost operator, itself included.
    int64_t end_ns = 0;
    bool called = false;  // What it held last was the call of a collective.
  };

  std::string_view name_of(uint32_t event) const {
    return trace_.text(trace_.events[event].name);
  }

  void close_until(int64_t time_ns) {
    while (!open_.empty() && open_.back().end_ns <= time_ns) {
      own_time(open_.back().end_ns);
      const Open closed = open_.back();
      open_.pop_back();
      cursor_ns_ = std::max(cursor_ns_, closed.end_ns);
      if (!open_.empty())
        open_.back().called = calls_collectives(name_of(closed.event));
    }
  }

  // The stretch of the innermost range up to a time.
  void own_time(int64_t until_ns) {
    const Open& open = open_.back();
    const Interval stretch = {cursor_ns_, until_ns};
    if (saturating_subtract(until_ns, cursor_ns_) < kShortestHostWait ||
        open.within == kNone)
      return;
    const Event& event = trace_.events[open.event];
    const std::string_view name = trace_.text(event.name);
    const bool is_operator = event.kind == EventKind::kHostOp;
    OperatorWait wait = {.start_ns = stretch.start_ns,
                         .end_ns = until_ns,
                         .stream = event.stream,
                         .event = open.event,
                         .within = open.within};
    if (is_operator && awaits_work(name)) return waits_.push_back(wait);
    const bool whole = is_operator && awaits_collective(name);
    const bool may_wait = whole || open.called ||
                          event.kind == EventKind::kAnnotation ||
                          (is_operator && runs_hooks(name));
    if (!may_wait) return;
    const auto awaited = collectives_.within(stretch, event.stream);
    if (!whole && !awaited.may_fill) return;
    wait.collective = awaited.event;
    if (!whole) wait.end_ns = awaited.end_ns;
    waits_.push_back(wait);
  }

  const Trace& trace_;
  const HostCollectives& collectives_;
  std::vector<OperatorWait>& waits_;
  std::vector<Open> open_;
  int64_t cursor_ns_ = std::numeric_limits<int64_t>::min();
};

// Outer ranges before those inside that start with them.
void sort_by_nesting(const Trace& trace, std::vector<uint32_t>& events) {
  const auto before = [&](uint32_t a, uint32_t b) {
    const Event& left = trace.events[a];
    const Event& right = trace.events[b];
    return std::tuple(left.start_ns, right.end_ns, a) <
           std::tuple(right.start_ns, left.end_ns, b);
  };
  if (!std::is_sorted(events.begin(), events.end(), before))
    std::sort(events.begin(), events.end(), before);
}

}  // namespace

std::vector<OperatorWait> operator_waits(const Trace& trace, size_t first,
                                         size_t last) {
  std::vector<OperatorWait> waits;
  if (!may_wait(trace, first, last)) return waits;
  HostRows rows = rows_of(trace, first, last);
  for (auto& [stream, events] : rows.events) {
    sort_by_nesting(trace, events);
    StretchWalk(trace, rows.collectives[trace.streams[stream].process], waits)
        .run(events);
  }
  return waits;
}

}  // namespace reprise
