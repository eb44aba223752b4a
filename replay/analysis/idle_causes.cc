#include "replay/analysis/idle_causes.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "replay/analysis/kernel_statistics.h"

namespace reprise {
namespace {

/// Whether the host sat in a synchronization when the gap began, and left it
/// before it launched what ends the gap.
bool after_synchronization(const std::vector<Interval>& synchronizations,
                           int64_t gap_start_ns, int64_t launch_ns) {
  const auto after = std::partition_point(
      synchronizations.begin(), synchronizations.end(),
      [&](const Interval& call) { return call.start_ns <= gap_start_ns; });
  if (after == synchronizations.begin()) return false;
  const Interval& call = *(after - 1);
  return call.end_ns >= gap_start_ns && call.end_ns <= launch_ns;
}

/// Of the part of a gap before `next` was launched.
IdleCause cause_before_launch(const RankWork& work, const DeviceEvent& previous,
                              const DeviceEvent& next) {
  return after_synchronization(work.synchronizations, previous.end_ns,
                               next.launch_ns)
             ? IdleCause::kSynchronized
             : IdleCause::kHost;
}

/// Of the part after it.
IdleCause cause_of_queued(const DeviceEvent& previous,
                          const DeviceEvent& next) {
  if (next.launch_ns >= previous.end_ns || next.stream == previous.stream)
    return IdleCause::kLaunch;
  return previous.work == WorkClass::kCommunication ? IdleCause::kCollective
                                                    : IdleCause::kKernel;
}

/// Each gap of all work with what ended it and what ended last before it.
template <typename Visit>
void for_each_gap(const std::vector<DeviceEvent>& events, Visit visit) {
  // Before all work: as after work that ended long ago.
  DeviceEvent before;
  before.start_ns = before.end_ns = -kLatestTime;
  before.stream = DeviceEvent::kNoEvent;
  const DeviceEvent* previous = &before;
  for (const DeviceEvent& event : events) {
    if (event.start_ns > previous->end_ns) visit(*previous, event);
    if (event.end_ns >= previous->end_ns) previous = &event;
  }
  DeviceEvent none;
  none.start_ns = none.launch_ns = kLatestTime;
  visit(*previous, none);
}

/// From a launch to its start on an idle device.
int64_t typical_latency_ns(const std::vector<DeviceEvent>& events) {
  std::vector<int64_t> latencies_ns;
  for_each_gap(
      events, [&](const DeviceEvent& previous, const DeviceEvent& next) {
        const bool on_idle = next.launch_ns != DeviceEvent::kNoLaunch &&
                             next.launch_ns >= previous.end_ns &&
                             next.launch_ns < next.start_ns;
        if (on_idle) latencies_ns.push_back(next.start_ns - next.launch_ns);
      });
  return distribution_of(std::move(latencies_ns)).median;
}

/// Walks one stream's work in order and shares out its gaps.
class StreamWalk {
 public:
  StreamWalk(const RankWork& work, const DeviceUnions& unions, int64_t start_ns,
             int64_t end_ns)
      : work_(work),
        unions_(unions),
        start_ns_(start_ns),
        end_ns_(std::max(start_ns, end_ns)),
        reached_ns_(start_ns) {}

  void next(const DeviceEvent& event) {
    const int64_t start = std::clamp(event.start_ns, start_ns_, end_ns_);
    const int64_t end = std::clamp(event.end_ns, start_ns_, end_ns_);
    if (event.start_ns < end_ns_ && event.end_ns > start_ns_) ++idle_.events;
    if (start > reached_ns_) share(start, &event);
    if (end > reached_ns_) {
      idle_.busy_ns += end - std::max(start, reached_ns_);
      reached_ns_ = end;
    }
  }

  /// A wait within what was counted as busy.
  void wait(const OperatorWait& wait) {
    const int64_t waited_ns = std::clamp(wait.end_ns, start_ns_, end_ns_) -
                              std::clamp(wait.start_ns, start_ns_, end_ns_);
    idle_.busy_ns -= waited_ns;
    idle_.idle[IdleCause::kHost] += waited_ns;
  }

  StreamIdle finish(uint32_t stream) {
    if (end_ns_ > reached_ns_) share(end_ns_, nullptr);
    idle_.stream = stream;
    return idle_;
  }

 private:
  /// [reached_ns_, gap_end_ns) is a gap, ended by `event` (none: the window).
  void share(int64_t gap_end_ns, const DeviceEvent* event) {
    if (event != nullptr && !work_.host_only &&
        event->launch_ns == DeviceEvent::kNoLaunch) {
      idle_.idle[IdleCause::kUnknown] += gap_end_ns - reached_ns_;
      return;
    }
    const int64_t queued_ns =
        event == nullptr || work_.host_only
            ? gap_end_ns
            : std::clamp(event->launch_ns, reached_ns_, gap_end_ns);
    const int64_t collective_ns =
        unions_.communication().length_within_ns(queued_ns, gap_end_ns);
    const int64_t others_ns =
        unions_.busy().length_within_ns(queued_ns, gap_end_ns);
    idle_.idle[IdleCause::kHost] += queued_ns - reached_ns_;
    idle_.idle[IdleCause::kCollective] += collective_ns;
    idle_.idle[IdleCause::kKernel] += others_ns - collective_ns;
    idle_.idle[IdleCause::kLaunch] += gap_end_ns - queued_ns - others_ns;
  }

  const RankWork& work_;
  const DeviceUnions& unions_;
  int64_t start_ns_ = 0, end_ns_ = 0;
  int64_t reached_ns_ = 0;
  StreamIdle idle_;
};

}  // namespace

std::string_view name_of(IdleCause cause) {
  constexpr std::array<std::string_view, kIdleCauses> kNames = {
      "host", "synchronized", "collective", "kernel", "launch", "unknown"};
  return kNames[static_cast<size_t>(cause)];
}

int64_t IdleCauses::total_ns() const {
  return std::accumulate(by_cause_ns.begin(), by_cause_ns.end(), int64_t{0});
}

DeviceGaps::DeviceGaps(const RankWork& work) {
  if (work.host_only) {
    const IntervalSet always({{-kLatestTime, kLatestTime}});
    gaps_[static_cast<size_t>(IdleCause::kHost)] =
        subtracted(always, DeviceUnions(work).busy());
    return;
  }
  std::array<std::vector<Interval>, kIdleCauses> gaps;
  const auto add = [&](IdleCause cause, int64_t start_ns, int64_t end_ns) {
    gaps[static_cast<size_t>(cause)].push_back({start_ns, end_ns});
  };
  const int64_t latency_ns = typical_latency_ns(work.events);
  for_each_gap(
      work.events, [&](const DeviceEvent& previous, const DeviceEvent& next) {
        const int64_t start_ns = previous.end_ns, end_ns = next.start_ns;
        if (next.launch_ns == DeviceEvent::kNoLaunch) {
          return add(IdleCause::kUnknown, start_ns, end_ns);
        }
        int64_t queued_ns = start_ns;
        if (next.launch_ns >= start_ns) {
          queued_ns = std::min(
              end_ns, std::max(next.launch_ns + latency_ns, next.call_end_ns));
          add(cause_before_launch(work, previous, next), start_ns, queued_ns);
        }
        add(cause_of_queued(previous, next), queued_ns, end_ns);
      });
  for (size_t cause = 0; cause < kIdleCauses; ++cause) {
    gaps_[cause] = IntervalSet(std::move(gaps[cause]));
  }
}

IdleCauses DeviceGaps::within(int64_t start_ns, int64_t end_ns) const {
  IdleCauses causes;
  for (size_t cause = 0; cause < kIdleCauses; ++cause) {
    causes.by_cause_ns[cause] = gaps_[cause].length_within_ns(start_ns, end_ns);
  }
  return causes;
}

std::vector<StreamIdle> stream_idle(const RankWork& work,
                                    const DeviceUnions& unions,
                                    int64_t start_ns, int64_t end_ns) {
  std::map<uint32_t, StreamWalk> walks;
  for (const DeviceEvent& event : work.events) {
    if (event.beside) continue;
    walks.try_emplace(event.stream, work, unions, start_ns, end_ns)
        .first->second.next(event);
  }
  for (const OperatorWait& wait : work.waits) {
    const auto walk = walks.find(wait.stream);
    if (walk != walks.end()) walk->second.wait(wait);
  }
  std::vector<StreamIdle> result;
  result.reserve(walks.size());
  for (auto& [stream, walk] : walks) result.push_back(walk.finish(stream));
  return result;
}

}  // namespace reprise
