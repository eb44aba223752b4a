// Brings the clocks of all ranks onto rank 0's: an offset and a drift a rank.
//
// Model. No rank leaves a collective before the last one has entered it;
// nothing more is asked, since ends need not be simultaneous. With x(t) = t +
// offset + drift (t - reference) for rank r, each collective with an aligned
// peer bounds x from both sides:  x(end) >= peer's start  and  x(start) <=
// peer's end. The measured line (ping-pong) is kept if it meets all bounds;
// else its drift with the nearest offset that does; else the line with the most
// room.
#pragma once

#include <cstdint>
#include <vector>

#include "data/result.h"
#include "data/trace/trace.h"

namespace reprise {

struct ClockAlignment {
  uint32_t rank = 0;
  int64_t offset_ns = 0;  ///< At the rank's first collective.
  double drift_ppm = 0;
  /// The true time lies within this of the aligned one, as far as the bounds
  /// (or the measurement that was kept) tell.
  int64_t residual_ns = 0;
  bool measured_kept = false;
  int64_t collectives = 0;  ///< Used as bounds.
};

/// Aligns and writes the result into `trace.ranks`; event times stay as they
/// are. Rank 0 comes first and stays as it is; ranks that share no collective
/// with an aligned one keep their measured clock.
/// Requires: a run with communication (a solo run's collectives bound nothing).
/// Cost: O(collective events) per rank, times about 500.
std::vector<ClockAlignment> align_clocks(Trace& trace);

}  // namespace reprise
