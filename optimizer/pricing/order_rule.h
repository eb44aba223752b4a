// The order of a plan that gives none: what edits of fusion and buckets are
// judged by before anyone searches an order for them.
#pragma once

#include <vector>

#include "optimizer/pricing/plan_pricer.h"

namespace reprise {

struct OrderRule {
  /// Updates run wherever compute would idle, in the order in which their
  /// collectives end; else last, as eager frameworks run them.
  bool idle_updates = false;
  /// Compute units of a searched order; others, and all if empty, run eagerly.
  std::vector<UnitRef> compute = {};
};

/// `plan` with its units in the order of the rule.
Result<PricedPlanPtr> order_by(const OrderRule& rule, PlanPricer& pricer,
                               const PricedPlan& plan);

}  // namespace reprise
