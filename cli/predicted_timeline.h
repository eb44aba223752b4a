// Measured and predicted steps side by side in one timeline.
#pragma once

#include "data/draw/chrome_export.h"
#include "data/schedule/schedule.h"
#include "data/trace/trace.h"
#include "replay/simulate/replay.h"

namespace reprise {

/// Shows the timed step nearest the median on every rank ("rank 0 measured")
/// and, from the same start, the replay ("rank 0 predicted") with arrows along
/// its critical path. `schedule` is the one replayed; `trace` may be of another
/// plan. Requires: aligned clocks, a complete timed step.
ChromeTimeline comparison_timeline(const Trace& trace, const Schedule& schedule,
                                   const Replay& replay);

}  // namespace reprise
