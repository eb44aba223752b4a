// A schedule's units as a graph within one step, and the orders that frameworks
// and list scheduling give them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/result.h"
#include "data/schedule/schedule.h"
#include "replay/simulate/replay.h"

namespace reprise {

class OrderGraph;

struct StepGraph {
  const Schedule* schedule = nullptr;         ///< Borrowed.
  std::vector<std::vector<uint32_t>> before;  ///< [unit] ascending.
  std::vector<std::vector<uint32_t>> after;   ///< [unit] ascending.
  /// [unit] A collective, or a unit that some collective waits for: forward and
  /// backward. The rest, the optimizer's updates, is late.
  std::vector<bool> is_early;
  /// [unit] A collective that no other collective waits for: what buckets are
  /// made of first. Any of them may share one.
  std::vector<bool> is_gradient;
  /// [unit] As collectives_before. Of those that others wait for, the ones of
  /// one depth may share a bucket: whatever other buckets join within their
  /// depths, none waits for another.
  std::vector<uint32_t> depth;
};
StepGraph step_graph(const Schedule& schedule);

/// What an eager framework runs: forward and backward ops as they become ready,
/// first come first served (a weight's gradient beside its input's, as autograd
/// does), each collective as soon as its operands are written; updates after
/// all of that, in the schedule's own order.
std::vector<uint32_t> eager_order(const StepGraph& graph);

/// The ordering problem of a schedule under durations [unit], in units of
/// kOrderUnit_ns.
Result<OrderGraph> order_graph_of(const StepGraph& graph,
                                  const std::vector<double>& duration_ns);
constexpr int64_t kOrderUnit_ns = 100;

/// Durations of units alone, with the gap that replay puts before each compute
/// unit.
std::vector<double> alone_durations(const PricedSchedule& priced);
/// Durations of units as replayed, slowed by what ran beside them; waits left
/// out.
std::vector<double> replayed_durations(const PricedSchedule& priced,
                                       const Replay& replay);

/// A plan's order: the units, copies left out, which lowering places.
std::vector<UnitRef> order_of(const Schedule& schedule,
                              const std::vector<uint32_t>& sequence);

}  // namespace reprise
