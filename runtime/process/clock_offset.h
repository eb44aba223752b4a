// How far each rank's clock is from rank 0's.
#pragma once

#include <cstdint>
#include <vector>

#include "data/result.h"
#include "data/trace/trace.h"
#include "runtime/process/process_group.h"

namespace reprise {

/// One reading: rank 0's clock minus ours, at our time `at_ns`.
struct ClockReading {
  int64_t at_ns = 0;
  int64_t offset_ns = 0;
  int64_t residual_ns = 0;  ///< Half the round trip: the offset is that sure.
};

/// Takes a reading on every rank by ping-pong with rank 0, keeping the shortest
/// of 200 round trips. A rank that provably reads rank 0's own clock (same
/// boot, same time namespace) has offset and residual zero. Collective.
Result<ClockReading> read_clock(ProcessGroup& group);

/// Offset and drift through two readings, as a trace states them: the offset
/// holds at the first one.
void set_clock(const ClockReading& first, const ClockReading& last,
               RankInfo& rank);

}  // namespace reprise
