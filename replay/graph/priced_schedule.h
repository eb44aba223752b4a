// A schedule with its prices: what each unit takes alone, and in which order
// the two streams of every rank run. Edited by what-ifs and by search, then
// turned into a graph (schedule_graph.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "costmodel/cost_model.h"
#include "data/result.h"
#include "data/schedule/schedule.h"

namespace reprise {

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
  double jitter_sqrt_ns = 0;  ///< As in CostModel,
  double meeting_ns = 0;      ///< as is this.
  double unexplained_ns = 0;  ///< A step, spread over its compute units.
  double step_overhead_ns = 0;
  double burst_ns = 0;  ///< Most credit of the link, as time on the wire.
  /// [unit], collectives: credit used, least time, what no bandwidth shrinks,
  /// and of that CollectivePrice::preempted_ns.
  std::vector<double> wire_ns, floor_ns, latency_ns, preempted_ns;
  std::vector<PriceSource> source;  ///< [unit]
  StreamOrder order;
};
/// Requires: units stand in a topological order (a Schedule's invariant).
PricedSchedule price_schedule(const Schedule& schedule, const CostModel& costs);

/// The sequences of both streams when units run in `order` (each unit once);
/// dependencies of the schedule must point forward in it. Errors: kInvalid
/// naming two units that it puts the wrong way round. Assigning the result to
/// PricedSchedule::order replays another order of the same units without
/// lowering again.
Result<StreamOrder> stream_order(const Schedule& schedule,
                                 std::span<const UnitId> order);

}  // namespace reprise
