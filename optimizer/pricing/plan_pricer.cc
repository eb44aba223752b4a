// Lowers a plan, prices its units and replays one step, twice: with the
// slow-down that the two streams cause each other, and calm. Kernels and the
// program's analysis are cached, so a candidate costs about the units it has.
#include "optimizer/pricing/plan_pricer.h"

#include <algorithm>

namespace reprise {

Result<std::unique_ptr<PlanPricer>> PlanPricer::make(
    const InlinedModule& inlined, const CostModel& costs) {
  auto pricer = std::make_unique<PlanPricer>();
  pricer->module_ = &inlined;
  pricer->costs_ = &costs;
  if (Status ok = open_cache(inlined, &pricer->cache_); !ok)
    return pass(ok.error());
  return pricer;
}

bool has_unknown_prices(const PricedPlan& plan, const CostModel& costs) {
  const auto& units = plan.schedule.units;
  return std::any_of(units.begin(), units.end(), [&](const Unit& unit) {
    const bool computes =
        unit.kind == UnitKind::kKernel || unit.kind == UnitKind::kLibrary;
    return computes && !costs.units.contains(unit.key);
  });
}

Result<PricedPlanPtr> PlanPricer::price(PlanChoice plan) {
  ++evaluations_;
  if (plan.ranks == 1) {
    plan.buckets.clear();
    plan.order.clear();
  }
  auto schedule = lower_schedule(plan, &cache_);
  if (!schedule) return pass(schedule.error());
  auto priced = std::make_unique<PricedPlan>();
  priced->plan = std::move(plan);
  priced->schedule = *std::move(schedule);
  priced->priced = price_schedule(priced->schedule, *costs_);
  priced->graph = step_graph(priced->schedule);
  priced->step_time_ns = replay_step_time(priced->priced);
  PricedSchedule calm = priced->priced;
  std::fill(calm.slowdown.begin(), calm.slowdown.end(), 1.0);
  priced->calm_step_time_ns = replay_step_time(calm);
  return priced;
}

Result<PricedPlanPtr> PlanPricer::reorder(
    const PricedPlan& from, const std::vector<uint32_t>& sequence) {
  PlanChoice plan = from.plan;
  plan.order = order_of(from.schedule, sequence);
  return price(std::move(plan));
}

}  // namespace reprise
