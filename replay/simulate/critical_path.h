// The global critical path of a replayed step: the chain of causes, across
// ranks, from the step's end back to its start, without a gap.
#pragma once

#include <vector>

#include "replay/simulate/engine.h"
#include "replay/simulate/replay.h"

namespace reprise {

/// Fills `replay.critical_path` and the shares by source of price.
/// Requires: records of `simulate` for the same prices; replay.step_time_ns
/// set.
void find_critical_path(const PricedSchedule& priced,
                        const RankClasses& classes,
                        const std::vector<std::vector<TaskRecord>>& records,
                        Replay& replay);

}  // namespace reprise
