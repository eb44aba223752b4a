// A lower bound on the step time of any plan with given units: whatever their
// order and whatever buckets its gradients are put into.
#pragma once

#include <cstdint>

#include "optimizer/pricing/plan_pricer.h"

namespace reprise {

/// Bound for every order and every bucketing under the fusion of `plan`, with
/// the barrier at the step's end. Compute units cost their time alone plus
/// dispatch. A gradient costs its bytes at the best rate that any bucket of
/// these gradients reaches, so that no bucketing beats it; where the link has
/// burst credit, the best of two bounds: each at its floor, or all at the
/// sustained rate less one full credit. Requires: prices do not fall with size.
/// Errors: none but those of building the graph, which a schedule does not
/// have.
Result<int64_t> step_lower_bound(PlanPricer& pricer, const PricedPlan& plan);

}  // namespace reprise
