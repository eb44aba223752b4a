// The search over buckets and orders of one fusion: dynamic program and replay
// in turns, then local search on bucket borders, then the order search.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "optimizer/buckets/gradients.h"
#include "optimizer/optimize.h"
#include "optimizer/pricing/plan_pricer.h"

namespace reprise {

/// Says when the search must end: time, or the caller's stop.
using Deadline = std::function<bool()>;

/// Forward and backward in the order of `compute_order` (unit names; eagerly
/// when empty), updates wherever compute would idle, in the order in which
/// their collectives end.
Result<PricedPlanPtr> order_with_idle_updates(
    PlanPricer& pricer, const PricedPlan& plan,
    const std::vector<std::string>& compute_order = {});

/// What the search minimises: the mean of the step time with and without mutual
/// slow-down, which is the least certain of all prices (a plan must not give up
/// overlap for it), plus a little for every collective, so that of nearly equal
/// plans the one of fewer meetings wins.
int64_t search_score(const PricedPlan& plan);

class PlanSearch {
 public:
  PlanSearch(PlanPricer& pricer, const OptimizeOptions& options,
             Deadline out_of_time)
      : pricer_(pricer),
        options_(options),
        out_of_time_(std::move(out_of_time)) {}

  /// Takes a plan as a candidate; the one of lower score stays.
  void offer(PricedPlanPtr candidate);
  /// Buckets by dynamic program on the replayed timeline, repeated while it
  /// helps. Compute runs in the best plan's order, if there is one.
  Status solve_buckets_by_replay(Plan start);
  /// Moves, adds and removes borders of the best plan's buckets, scored by
  /// replay.
  Status refine_buckets(uint64_t evaluations);
  /// List schedules, local search and GLPK windows on the best plan's units.
  Status refine_order(uint64_t evaluations);

  bool fits(const PricedPlan& plan) const;
  bool has_best() const { return best_ != nullptr; }
  const PricedPlan& best() const { return *best_; }
  const std::vector<std::string>& log() const { return log_; }
  uint64_t order_evaluations() const { return order_evaluations_; }

 private:
  Result<PricedPlanPtr> with_borders(const Plan& plan,
                                     const Gradients& gradients,
                                     const std::vector<size_t>& borders);
  void note(const std::string& stage);
  void remember_order();

  PlanPricer& pricer_;
  const OptimizeOptions& options_;
  Deadline out_of_time_;
  PricedPlanPtr best_;
  std::vector<std::string> compute_order_;  ///< Of the best searched order.
  std::vector<std::string> log_;
  uint64_t order_evaluations_ = 0;
};

}  // namespace reprise
