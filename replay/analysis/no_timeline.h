// Traces that hold no timeline, and what to do with them instead.
#pragma once

#include <string>

#include "data/trace/trace_by_rank.h"

namespace reprise {

/// What the trace holds instead of times, as a sentence; "" if a rank has some.
std::string what_no_timeline_has(const TraceByRank& by_rank);

}  // namespace reprise
