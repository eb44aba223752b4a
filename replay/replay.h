// Replays a schedule on all ranks: an event-driven simulation with one compute and
// one communication stream a rank, collectives across ranks, and mutual slow-down
// while both streams of a rank are busy.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "costmodel/cost_model.h"
#include "data/schedule/schedule.h"

namespace reprise {

/// Times of one unit on one rank within the replayed step, from the step's start.
struct UnitTime {
  int64_t start_ns = 0, end_ns = 0;
};

struct RankBreakdown {
  int64_t compute_ns = 0, communication_ns = 0, exposed_ns = 0, idle_ns = 0;
};

struct PathEntry {
  UnitId unit{};
  uint32_t rank = 0;
  int64_t start_ns = 0, duration_ns = 0;
};

struct Replay {
  int64_t step_time_ns = 0;                          ///< Maximum over ranks.
  std::vector<std::vector<UnitTime>> times;          ///< [rank][unit]
  std::vector<RankBreakdown> ranks;
  std::vector<PathEntry> critical_path;              ///< In time order; covers the step.
  double measured_share = 0, calibrated_share = 0, modelled_share = 0, unexplained_share = 0;
};

/// Prices of one schedule, resolved once: alone-times by unit.
struct PricedSchedule {
  const Schedule* schedule = nullptr;
  std::vector<double> duration_ns;          ///< [unit], alone; collectives: transfer.
  std::vector<double> slowdown;             ///< [unit], factor while the other stream is busy.
  std::vector<double> rank_factor;          ///< [rank], multiplies compute (stragglers); 1 = same.
  double dispatch_ns = 0, feed_ns = 0;
};
PricedSchedule price_schedule(const Schedule& schedule, const CostModel& costs);

/// Replays one step (barrier at its end). Ranks with equal factors are folded and simulated once.
/// Cost: O((units + dependencies) x distinct ranks).
Replay replay_step(const PricedSchedule& priced);
/// The step time alone, for search: same number, no timeline.
int64_t replay_step_time(const PricedSchedule& priced);

}  // namespace reprise
