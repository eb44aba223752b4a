#include "replay/analysis/kernel_statistics.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "data/integers.h"

namespace reprise {
namespace {

/// Work between its launch and its start; it comes in order of start.
class Queue {
 public:
  void add(const DeviceEvent& event) {
    delays_ns_.push_back(event.start_ns - event.launch_ns);
    launched_.push_back(event.launch_ns);
    started_.push_back(event.start_ns);
    span_.start_ns = std::min(span_.start_ns, event.launch_ns);
    span_.end_ns = std::max(span_.end_ns, event.end_ns);
  }

  void finish(LaunchStatistics& result) {
    if (delays_ns_.empty()) return;
    double queued_ns = 0;
    for (const int64_t delay : delays_ns_) {
      queued_ns += static_cast<double>(std::max(delay, int64_t{0}));
    }
    const int64_t span_ns = std::max(span_.end_ns - span_.start_ns, int64_t{1});
    result.mean_queue_depth = queued_ns / static_cast<double>(span_ns);
    result.deepest_queue = deepest();
    result.delay_ns = distribution_of(std::move(delays_ns_));
  }

 private:
  int64_t deepest() {
    std::sort(launched_.begin(), launched_.end());
    size_t started = 0;
    int64_t deepest = 0;
    for (size_t i = 0; i < launched_.size(); ++i) {
      while (started <= i && started_[started] <= launched_[i]) ++started;
      deepest = std::max(
          deepest, static_cast<int64_t>(i + 1) - static_cast<int64_t>(started));
    }
    return deepest;
  }

  std::vector<int64_t> delays_ns_, launched_, started_;
  Interval span_{kLatestTime, -kLatestTime};
};

/// `calls`: the launch of each work.
void count_launches(std::vector<uint32_t> calls, LaunchStatistics& result) {
  std::sort(calls.begin(), calls.end());
  for (auto call = calls.begin(); call != calls.end();) {
    const auto next = std::upper_bound(call, calls.end(), *call);
    result.most_per_launch =
        std::max(result.most_per_launch, int64_t{next - call});
    ++result.launches;
    call = next;
  }
}

}  // namespace

bool WorkScope::holds(const RankWork& work, const DeviceEvent& event) const {
  if (!step) return true;
  const int32_t place = step_of(work, event);
  return place >= 0 && work.steps[static_cast<size_t>(place)].step == *step;
}

bool WorkScope::counts(const RankWork& work, const DeviceEvent& event) const {
  if (step) return holds(work, event);
  const bool is_launched =
      !work.host_only && event.launch_ns != DeviceEvent::kNoLaunch;
  return (is_launched ? event.launch_ns : event.start_ns) >= work.warm_from_ns;
}

void KernelDurations::add(const Trace& trace, const RankWork& rank,
                          const WorkScope& scope) {
  by_name_.resize(trace.strings.size());
  for (const DeviceEvent& event : rank.events) {
    if (!scope.counts(rank, event)) continue;
    OfName& name = by_name_[index_of(trace.events[event.event].name)];
    name.durations_ns.push_back(event.own_ns);
    name.work = event.work;
  }
}

std::vector<KernelStatistics> KernelDurations::statistics(
    const Trace& trace) && {
  std::vector<KernelStatistics> result;
  for (size_t name = 0; name < by_name_.size(); ++name) {
    const auto first = by_name_[name].durations_ns.begin();
    const auto last = by_name_[name].durations_ns.end();
    if (first == last) continue;
    KernelStatistics kernel;
    kernel.name = StringId{static_cast<uint32_t>(name)};
    kernel.work = by_name_[name].work;
    kernel.count = last - first;
    kernel.total_ns = std::accumulate(first, last, int64_t{0}, saturating_add);
    const auto at = [&](int64_t part) {
      const auto place = first + (kernel.count - 1) * part / 100;
      std::nth_element(first, place, last);
      return *place;
    };
    kernel.median_ns = at(50);
    kernel.p95_ns = at(95);
    kernel.longest_ns = at(100);
    result.push_back(kernel);
  }
  std::sort(result.begin(), result.end(),
            [&](const KernelStatistics& a, const KernelStatistics& b) {
              return std::tie(b.total_ns, trace.text(a.name)) <
                     std::tie(a.total_ns, trace.text(b.name));
            });
  return result;
}

Distribution distribution_of(std::vector<int64_t> values) {
  Distribution result;
  if (values.empty()) return result;
  const size_t last = values.size() - 1;
  const auto at = [&](size_t place) {
    std::nth_element(values.begin(),
                     values.begin() + static_cast<std::ptrdiff_t>(place),
                     values.end());
    return values[place];
  };
  result = {.least = at(0),
            .median = at(last / 2),
            .p95 = at(last * 95 / 100),
            .most = at(last)};
  double sum = 0;
  for (const int64_t value : values) sum += static_cast<double>(value);
  result.mean = sum / static_cast<double>(values.size());
  return result;
}

LaunchStatistics launch_statistics(const RankWork& work,
                                   const WorkScope& scope) {
  LaunchStatistics result;
  Queue queue;
  std::vector<uint32_t> calls;
  for (const DeviceEvent& event : work.events) {
    if (!scope.counts(work, event)) continue;
    ++result.works;
    result.total_ns = saturating_add(result.total_ns, event.own_ns);
    if (event.own_ns < kTinyKernelNs) {
      ++result.tiny;
      result.tiny_ns = saturating_add(result.tiny_ns, event.own_ns);
    }
    if (event.launch_ns == DeviceEvent::kNoLaunch) {
      ++result.without_launch;
      continue;
    }
    if (event.launch != DeviceEvent::kNoEvent) calls.push_back(event.launch);
    result.started_early += event.start_ns < event.launch_ns ? 1 : 0;
    queue.add(event);
  }
  count_launches(std::move(calls), result);
  queue.finish(result);
  return result;
}

}  // namespace reprise
