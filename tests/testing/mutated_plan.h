// Plans that someone has meddled with, for property tests.
#pragma once

#include <cstdint>

#include "data/hlo/module.h"
#include "data/plan/plan.h"

namespace reprise {

/// Edits a plan at random, one to three times: ops and collectives added,
/// moved or dropped, groups and buckets merged, split or made anew, chunks,
/// places in the order. Most results are invalid. Same arguments, same result.
Plan mutated_plan(const InlinedModule& module, Plan plan, uint64_t seed);

}  // namespace reprise
