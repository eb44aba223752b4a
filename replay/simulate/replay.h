// Replays a schedule on all ranks: an event-driven simulation with one compute
// and one communication stream a rank, collectives across ranks, and mutual
// slow-down while both streams of a rank are busy.
//
// Model. Each stream runs its units in order. A collective's transfer starts
// when all its ranks have it at the head of their stream with its dependencies
// done. While a transfer is in flight on a rank, the rank's compute unit u runs
// at rate 1/slowdown(u); while any member computes, the transfer runs at rate
// 1/slowdown(collective). A transfer that compute let begin, and a step that
// compute ends, come late by what noise has pulled the ranks apart
// (CostModel::jitter_sqrt_ns). The step ends, on all ranks, when the last
// stream of the last rank is done. Times are integer nanoseconds, ends rounded
// up.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "costmodel/cost_model.h"
#include "data/schedule/schedule.h"

namespace reprise {

/// Times of one unit on one rank within the replayed step, from the step's
/// start.
struct UnitTime {
  int64_t start_ns = 0, end_ns = 0;
  /// Collectives: from start_ns until the last rank arrived.
  int64_t wait_ns = 0;
};

/// Unions of intervals on one rank; communication includes waits inside
/// collectives.
struct RankBreakdown {
  int64_t compute_ns = 0, communication_ns = 0, exposed_ns = 0, idle_ns = 0;
};

enum class PathKind : uint8_t {
  kUnit,      ///< A compute unit, or the transfer of a collective.
  kDispatch,  ///< Handing a unit to its stream, or waking a stream that waited.
  kFeed,      ///< Filling the batch.
  kOverhead,  ///< Ending the step.
};

/// One stretch of the critical path. kDispatch belongs to the unit that starts
/// after it.
struct PathEntry {
  UnitId unit{};
  uint32_t rank = 0;
  int64_t start_ns = 0, duration_ns = 0;
  PathKind kind = PathKind::kUnit;
};

struct Replay {
  int64_t step_time_ns = 0;                  ///< Maximum over ranks.
  std::vector<std::vector<UnitTime>> times;  ///< [rank][unit]
  std::vector<RankBreakdown> ranks;
  std::vector<PathEntry> critical_path;  ///< In time order; covers the step.
  /// Shares of the critical path by source of price; they sum to 1.
  double measured_share = 0, calibrated_share = 0, modelled_share = 0,
         unexplained_share = 0;
};

/// The part of a schedule that an order fixes: each stream's sequence and, for
/// each of its places, how many units of the other stream must have ended
/// before.
struct StreamOrder {
  std::vector<uint32_t> compute, communication;  ///< Unit ids, in order.
  std::vector<uint32_t> compute_needs, communication_needs;  ///< Same places.
};

/// Prices of one schedule, resolved once: alone-times by unit. Values may be
/// edited (what-ifs, search); `order` follows from the schedule.
struct PricedSchedule {
  const Schedule* schedule = nullptr;  ///< Borrowed.
  /// [unit], alone; collectives: sustained transfer.
  std::vector<double> duration_ns;
  /// [unit], factor while the other stream is busy.
  std::vector<double> slowdown;
  /// [rank], multiplies compute (stragglers); 1 = same.
  std::vector<double> rank_factor;
  double dispatch_ns = 0, feed_ns = 0;
  double compute_wake_ns = 0, communication_wake_ns = 0;
  double communication_gap_ns = 0;
  double jitter_sqrt_ns = 0;  ///< As in CostModel.
  double unexplained_ns = 0;  ///< A step, spread over its compute units.
  double step_overhead_ns = 0;
  double burst_ns = 0;  ///< Most credit of the link, as time on the wire.
  /// [unit], collectives: credit used, least time.
  std::vector<double> wire_ns, floor_ns;
  std::vector<PriceSource> source;  ///< [unit]
  StreamOrder order;
};
/// Requires: units stand in a topological order (a Schedule's invariant).
PricedSchedule price_schedule(const Schedule& schedule, const CostModel& costs);

/// Replays one step (barrier at its end). Ranks that do the same are simulated
/// once. Cost: O(units x R log R) for compute, O(collectives x R^2) for R
/// distinct ranks.
Replay replay_step(const PricedSchedule& priced);
/// The step time alone, for search: same number, no timeline.
int64_t replay_step_time(const PricedSchedule& priced);

/// The sequences of both streams when units run in `order` (each unit once);
/// dependencies of the schedule must point forward in it. Errors: kInvalid
/// naming two units that it puts the wrong way round. Assigning the result to
/// PricedSchedule::order replays another order of the same units without
/// lowering again.
Result<StreamOrder> stream_order(const Schedule& schedule,
                                 std::span<const UnitId> order);

}  // namespace reprise
