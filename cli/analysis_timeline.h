// The aligned timeline of all ranks with the critical path laid over it.
#pragma once

#include "data/draw/chrome_export.h"
#include "data/trace/trace.h"
#include "replay/analysis/analysis.h"

namespace reprise {

/// Ranks as recorded, on rank 0's clock; then a process "critical path" with a
/// track for each kind of stretch, and arrows from each recorded event of the
/// path to the next one. `step`: only what that step launched or ran.
/// Requires: clocks aligned (analyze has done so).
ChromeTimeline analysis_timeline(const Trace& trace, const Analysis& analysis,
                                 std::optional<int32_t> step);

}  // namespace reprise
