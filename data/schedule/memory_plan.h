// Which arena bytes each buffer gets.
#pragma once

#include <cstdint>
#include <vector>

#include "data/schedule/schedule.h"

namespace reprise {

/// From when to when a temporary holds its bytes, in places among the
/// computation stream's units (0 is its first unit), ends included. A use by a
/// collective lasts until just before the first computing unit that waits, by a
/// dependency, for that collective or a later one, since collectives run in
/// order; without such a unit, and for outputs, to the end of the step. Where
/// the first unit waits, it lasts for that one.
struct LiveInterval {
  int64_t begin = 0, end = 0;
};

/// Live intervals by buffer; those of parameters and constants are empty (end <
/// begin). What a collective alone writes lives since the computing unit that
/// it waits for last. Requires: dependencies are complete.
std::vector<LiveInterval> live_intervals(const Schedule& schedule);

/// Arena bytes that nobody needs while a computing unit runs.
class IdleBytes {
 public:
  /// Requires: memory is planned.
  explicit IdleBytes(const Schedule& schedule);

  /// Arena offset, a multiple of kAlignmentBytes, of the smallest run of idle
  /// bytes that holds `size_bytes` while the compute stream's unit `place`
  /// runs; -1 where there is none.
  int64_t find(int64_t place, int64_t size_bytes) const;

 private:
  const Schedule& schedule_;
  std::vector<LiveInterval> live_;
};

/// Sets `arena_offset` of every buffer, `arena_bytes` and
/// `peak_temporary_bytes` (the extent of the temporaries' part). Parameters and
/// constants have bytes of their own; temporaries that take over bytes lie
/// together, and are placed from the biggest to the smallest, each in the
/// smallest gap that fits. Where parameters lie in the arena, they lend their
/// bytes between the last read of the old value and the first write of the new
/// one; where they lie elsewhere they take none. All offsets are multiples of
/// `alignment_bytes`, which is a multiple of 64. Cost: quadratic in the number
/// of temporaries.
void plan_memory(Schedule* schedule, int64_t alignment_bytes = 64,
                 ParameterBytes parameters = ParameterBytes::kHere);

}  // namespace reprise
