// A slow, independent replay for differential tests: all tasks are fluids; at
// each instant every running task's rate is worked out afresh and the next end
// found by looking at all of them.
#pragma once

#include "replay/graph/priced_schedule.h"

namespace reprise {

/// End of the step in nanoseconds, unrounded. Ignores `order` and `groups`
/// shortcuts: reads the schedule's dependencies and replica groups (empty: all
/// ranks), simulates every rank.
double fluid_step_time(const PricedSchedule& priced);

}  // namespace reprise
