// Random plans that are valid for a program, for property tests.
#pragma once

#include <cstdint>

#include "data/plan/plan.h"

namespace reprise {

/// A valid plan with random convex groups that are one kernel each, dots with
/// epilogues, random buckets and chunks, and (for odd seeds) a random
/// topological order. Same module and seed, same plan. Requires: a module after
/// inline_calls that lowers under its identity plan.
Plan random_valid_plan(const InlinedModule& module, uint64_t seed,
                       int64_t ranks = 2);

}  // namespace reprise
