// Which arena bytes each buffer gets.
#pragma once

#include <vector>

#include "data/schedule/schedule.h"

namespace reprise {

/// From when to when a temporary holds its bytes, in places among the
/// computation stream's units (0 is its first unit), ends included. A use by a
/// collective lasts until just before the first computing unit that waits, by a
/// dependency, for that collective or a later one, since collectives run in
/// order; without such a unit, and for outputs, to the end of the step.
struct LiveInterval {
  int64_t begin = 0, end = 0;
};

/// Live intervals by buffer; those of parameters and constants are empty (end <
/// begin). Requires: dependencies are complete, and a computing unit is first
/// to write any temporary.
std::vector<LiveInterval> live_intervals(const Schedule& schedule);

/// Sets `arena_offset` of every buffer, `arena_bytes` and
/// `peak_temporary_bytes` (the extent of the temporaries' part). Parameters and
/// constants have bytes of their own; temporaries are placed in order of first
/// use, each in the smallest gap that fits. All offsets are multiples of
/// `alignment_bytes`, which is a multiple of 64.
void plan_memory(Schedule* schedule, int64_t alignment_bytes = 64);

}  // namespace reprise
