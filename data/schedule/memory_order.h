// An order of units in which fewer bytes are held at once.
#pragma once

#include <vector>

#include "data/plan/plan_choice.h"
#include "data/schedule/schedule.h"

namespace reprise {

/// Of the units that may run next the one that frees the most bytes beyond
/// those that it begins to hold, and of equals the schedule's first, as in
/// XLA's list scheduler; collectives stay in their order. Copies are left out.
/// It need not be better than the schedule's own.
std::vector<UnitRef> memory_order(const Schedule& schedule);

}  // namespace reprise
