#include "replay/simulate/replay.h"

#include <algorithm>

#include "replay/simulate/critical_path.h"
#include "replay/simulate/engine.h"

namespace reprise {
namespace {

using BusySpan = std::pair<int64_t, int64_t>;

int64_t length(const std::vector<BusySpan>& disjoint) {
  int64_t total = 0;
  for (const auto& [start, end] : disjoint) total += end - start;
  return total;
}

// Both lists sorted and disjoint, as the units of one stream are.
int64_t overlap(const std::vector<BusySpan>& left,
                const std::vector<BusySpan>& right) {
  int64_t total = 0;
  for (size_t i = 0, j = 0; i < left.size() && j < right.size();) {
    const int64_t start = std::max(left[i].first, right[j].first);
    const int64_t end = std::min(left[i].second, right[j].second);
    total += std::max<int64_t>(0, end - start);
    if (left[i].second < right[j].second) {
      ++i;
    } else {
      ++j;
    }
  }
  return total;
}

RankBreakdown breakdown(const PricedSchedule& priced,
                        const std::vector<UnitTime>& times, int64_t step_ns) {
  std::vector<BusySpan> compute, communication;
  for (const uint32_t unit : priced.order.compute) {
    compute.emplace_back(times[unit].start_ns, times[unit].end_ns);
  }
  for (const uint32_t unit : priced.order.communication) {
    communication.emplace_back(times[unit].start_ns, times[unit].end_ns);
  }
  const int64_t both = overlap(compute, communication);
  RankBreakdown result;
  result.compute_ns = length(compute);
  result.communication_ns = length(communication);
  result.exposed_ns = result.communication_ns - both;
  result.idle_ns = step_ns - result.compute_ns - result.exposed_ns;
  return result;
}

std::vector<UnitTime> unit_times(const PricedSchedule& priced,
                                 const std::vector<TaskRecord>& records) {
  std::vector<UnitTime> times(records.size());
  for (size_t unit = 0; unit < records.size(); ++unit) {
    const TaskRecord& record = records[unit];
    const bool compute =
        priced.schedule->units[unit].stream == Stream::kCompute;
    times[unit] = {.start_ns = compute ? record.start_ns : record.begin_ns,
                   .end_ns = record.end_ns,
                   .wait_ns = compute ? 0 : record.start_ns - record.begin_ns};
  }
  return times;
}

}  // namespace

Replay replay_step(const PricedSchedule& priced) {
  const RankClasses classes = fold_ranks(priced);
  std::vector<std::vector<TaskRecord>> records;
  Replay replay;
  replay.step_time_ns = simulate(priced, classes, &records);
  for (const uint32_t simulated : classes.class_of) {
    replay.times.push_back(unit_times(priced, records[simulated]));
    replay.ranks.push_back(
        breakdown(priced, replay.times.back(), replay.step_time_ns));
  }
  find_critical_path(priced, classes, records, replay);
  return replay;
}

int64_t replay_step_time(const PricedSchedule& priced) {
  return simulate(priced, fold_ranks(priced), nullptr);
}

}  // namespace reprise
