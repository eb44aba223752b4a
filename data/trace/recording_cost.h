// What recording costs the run that is recorded: a recorder on a thread that
// computes costs it so much an event; one of a device slows its steps by what
// steps show that run without it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "data/trace/trace.h"

namespace reprise {

/// In `Trace::environment`: nanoseconds that an event costs the thread that it
/// is of. Absent where threads that record do not compute.
inline constexpr const char* kEventCost = "event_ns";

/// What each event of the ranks cost; 0 where that is not told, or is no number
/// of nanoseconds below a microsecond.
int64_t event_cost_ns(const Trace& trace);

/// Keeps in `measurements` the median, spread and number of `marks`, steps that
/// ran while their devices were not recorded; nothing where none counts.
void keep_bare_steps(std::vector<StepMark> marks, Trace& trace);
/// What was kept.
std::optional<Measurement> bare_steps(const Trace& trace);

}  // namespace reprise
