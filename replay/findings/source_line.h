// Which line of a script an event comes from, of traces with stacks.
#pragma once

#include <cstdint>
#include <string>

#include "data/trace/trace_by_rank.h"

namespace reprise {

/// The innermost Python function of the user's around a host event, or around
/// the call that launched device work: "train.py(42): step"; "" where no stack
/// was recorded. `event`: its number. Cost: linear in its rank's events.
std::string source_line(const TraceByRank& trace, uint32_t event);

}  // namespace reprise
