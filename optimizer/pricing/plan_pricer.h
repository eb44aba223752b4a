// Lowers and replays candidate plans: the score of every search.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "costmodel/cost_model.h"
#include "data/schedule/schedule_cache.h"
#include "optimizer/pricing/step_graph.h"
#include "replay/simulate/replay.h"

namespace reprise {

/// A plan with its schedule, priced and replayed. Addresses stay: `priced` and
/// `graph` point into `schedule`, so it lives behind a pointer and is not
/// copied.
struct PricedPlan {
  PlanChoice plan;
  Schedule schedule;
  PricedSchedule priced;
  StepGraph graph;
  int64_t step_time_ns = 0;
  int64_t calm_step_time_ns = 0;  ///< If the streams did not slow each other.

  PricedPlan() = default;
  PricedPlan(const PricedPlan&) = delete;
  PricedPlan& operator=(const PricedPlan&) = delete;
};
using PricedPlanPtr = std::unique_ptr<PricedPlan>;

/// Whether some unit that computes has no price of its own in `costs`.
bool has_unknown_prices(const PricedPlan& plan, const CostModel& costs);

/// One thread at a time. `inlined` and `costs` must outlive it.
class PlanPricer {
 public:
  static Result<std::unique_ptr<PlanPricer>> make(const InlinedModule& inlined,
                                                  const CostModel& costs);

  /// On one rank, where nothing is sent and none waits for another, buckets and
  /// orders save no time, and hold all gradients in memory until the last: its
  /// plans have none. Errors: those of `lower_schedule`.
  Result<PricedPlanPtr> price(PlanChoice plan);
  /// The same plan with its units in another order. Errors: kInvalid when the
  /// order breaks a dependency.
  Result<PricedPlanPtr> reorder(const PricedPlan& from,
                                const std::vector<uint32_t>& sequence);

  ScheduleCache& cache() { return cache_; }
  const OpGraph& ops() const { return cache_.graph; }
  const InlinedModule& module() const { return *module_; }
  const CostModel& costs() const { return *costs_; }
  uint64_t evaluations() const { return evaluations_; }

 private:
  const InlinedModule* module_ = nullptr;
  const CostModel* costs_ = nullptr;
  ScheduleCache cache_;
  uint64_t evaluations_ = 0;
};

}  // namespace reprise
