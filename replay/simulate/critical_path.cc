#include "replay/simulate/critical_path.h"

#include <algorithm>

namespace reprise {
namespace {

// The task that ends last; of equals, the one that the lowest rank runs first.
Cause last_task(const std::vector<std::vector<TaskRecord>>& records) {
  Cause last;
  int64_t end_ns = 0;
  for (uint32_t rank = 0; rank < records.size(); ++rank) {
    for (size_t unit = 0; unit < records[rank].size(); ++unit) {
      if (last.unit >= 0 && records[rank][unit].end_ns <= end_ns) continue;
      end_ns = records[rank][unit].end_ns;
      last = {.unit = static_cast<int32_t>(unit), .rank = rank};
    }
  }
  return last;
}

std::vector<uint32_t> first_rank_of_class(const RankClasses& classes) {
  std::vector<uint32_t> first(classes.factor.size(), 0);
  for (size_t rank = classes.class_of.size(); rank-- > 0;) {
    first[classes.class_of[rank]] = static_cast<uint32_t>(rank);
  }
  return first;
}

void sum_shares(const PricedSchedule& priced, Replay& replay) {
  if (replay.step_time_ns <= 0) return;
  const double units =
      static_cast<double>(std::max<size_t>(1, priced.order.compute.size()));
  const double unexplained_each_ns = priced.unexplained_ns / units;
  for (const PathEntry& entry : replay.critical_path) {
    const double duration = static_cast<double>(entry.duration_ns);
    const double share = duration / static_cast<double>(replay.step_time_ns);
    if (entry.kind == PathKind::kUnit) {
      switch (priced.source[index_of(entry.unit)]) {
        case PriceSource::kMeasured:
          replay.measured_share += share;
          break;
        case PriceSource::kCalibrated:
          replay.calibrated_share += share;
          break;
        case PriceSource::kModelled:
          replay.modelled_share += share;
          break;
      }
      continue;
    }
    double unexplained = 0;
    const Unit& unit = priced.schedule->units[index_of(entry.unit)];
    if (entry.kind == PathKind::kDispatch && unit.stream == Stream::kCompute &&
        duration > 0) {
      unexplained = std::min(1.0, unexplained_each_ns / duration);
    }
    replay.unexplained_share += share * unexplained;
    replay.measured_share += share * (1 - unexplained);
  }
}

}  // namespace

void find_critical_path(const PricedSchedule& priced,
                        const RankClasses& classes,
                        const std::vector<std::vector<TaskRecord>>& records,
                        Replay& replay) {
  const std::vector<uint32_t> rank_of = first_rank_of_class(classes);
  std::vector<PathEntry>& path = replay.critical_path;
  int64_t reached_ns =
      replay.step_time_ns;  // The path covers [reached, step end].
  Cause at = last_task(records);
  const auto prepend = [&](int64_t start_ns, PathKind kind) {
    const UnitId unit{static_cast<uint32_t>(std::max(0, at.unit))};
    if (start_ns < reached_ns) {
      path.push_back(
          {unit, rank_of[at.rank], start_ns, reached_ns - start_ns, kind});
    }
    reached_ns = start_ns;
  };
  if (at.unit >= 0)
    prepend(records[at.rank][static_cast<size_t>(at.unit)].end_ns,
            PathKind::kOverhead);
  while (at.unit >= 0) {
    const TaskRecord& record = records[at.rank][static_cast<size_t>(at.unit)];
    const bool compute =
        priced.schedule->units[static_cast<size_t>(at.unit)].stream ==
        Stream::kCompute;
    if (!compute) at.rank = record.cause.rank;  // Whom all waited for.
    prepend(record.start_ns, PathKind::kUnit);
    const std::vector<TaskRecord>& own = records[at.rank];
    prepend(own[static_cast<size_t>(at.unit)].begin_ns, PathKind::kDispatch);
    at = record.cause;
  }
  prepend(0, PathKind::kFeed);
  std::reverse(path.begin(), path.end());
  sum_shares(priced, replay);
}

}  // namespace reprise
