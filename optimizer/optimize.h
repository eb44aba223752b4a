// The joint search over plans: passes (optimizer/passes.h) in turns, scored by
// replay, certified by a bound, never predicted worse than the recorded plan
// or, with all passes, than a baseline (if those fit into memory); one of those
// is the plan where search gains too little to tell from noise.
//
// For a fixed number of evaluations and a fixed cost model the plan is the same
// bytes for a seed and any number of threads. A time limit or a stop ends the
// search early with the best plan so far.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/hlo/module.h"
#include "optimizer/passes.h"
#include "optimizer/search/search_options.h"

namespace reprise {

struct OptimizeResult {
  Plan plan;                     ///< With `predicted`, seed and evaluations.
  std::vector<std::string> log;  ///< What each stage gained; for people.
  double seconds = 0;
  uint64_t evaluations = 0;
  int64_t arena_bytes = 0;  ///< What a step of the plan computes takes.
};

/// Errors: kInfeasible when no plan fits the memory limit; kInvalid for a pass
/// that `passes` does not have; those of lowering the program and of the
/// recorded plan.
Result<OptimizeResult> optimize(
    const InlinedModule& inlined, const Plan& recorded, const CostModel& costs,
    const OptimizeOptions& options = {}, const Measure& measure = {},
    const std::vector<PassEntry>& passes = registered_passes());

}  // namespace reprise
