// Forward and backward keep their places; updates have the lowest priority and
// so fill whatever gaps the list scheduler finds on the compute stream, those
// of collectives that end first before others.
#include "optimizer/pricing/order_rule.h"

#include <limits>
#include <map>

#include "optimizer/order/list_schedule.h"

namespace reprise {

Result<PricedPlanPtr> order_by(const OrderRule& rule, PlanPricer& pricer,
                               const PricedPlan& plan) {
  const std::vector<uint32_t> eager = eager_order(plan.graph);
  if (!rule.idle_updates) return pricer.reorder(plan, eager);
  const auto graph = order_graph_of(plan.graph, alone_durations(plan.priced));
  if (!graph) return pass(graph.error());
  // Higher first: early units by their place in the order, late ones after all
  // of them by who is ready first, which the list scheduler decides (equal
  // priorities, ids in text order).
  const auto count = static_cast<int64_t>(eager.size());
  std::map<UnitRef, int64_t> place_of;
  for (const UnitRef unit : rule.compute) {
    place_of.emplace(unit, static_cast<int64_t>(place_of.size()));
  }
  std::vector<int64_t> priority(eager.size(), 0);
  for (int64_t place = 0; place < count; ++place) {
    const uint32_t unit = eager[static_cast<size_t>(place)];
    if (!plan.graph.is_early[unit]) continue;
    const auto found = place_of.find(plan.schedule.units[unit].ref);
    priority[unit] =
        2 * count - (found == place_of.end() ? place : found->second);
  }
  ListScheduler scheduler(*graph);
  scheduler.run(priority, std::numeric_limits<int64_t>::max());
  return pricer.reorder(plan, scheduler.solution().sequence);
}

}  // namespace reprise
