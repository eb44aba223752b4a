// Brings the clocks of all ranks onto the lowest rank's: an offset and a drift
// a rank.
//
// Model. No rank leaves a collective before the last one has entered it, and no
// message arrives before it was sent; nothing more is certain, since ends need
// not be simultaneous. With x(t) = t + offset + drift (t - reference) for rank
// r, each collective with an aligned peer bounds x from both sides:  x(end) >=
// peer's start  and  x(start) <= peer's end. Within the bounds, in this order:
//   - a measured line (ping-pong) that meets them all, or its drift with the
//     nearest offset that does, within twice what the measurement is sure of;
//   - the clock of an aligned rank on the same host;
//   - of collectives, which end together, on devices within microseconds, on
//     hosts within milliseconds and as often early as late: the line nearest to
//     the middle of the peers' ends (the room between the bounds may be all of
//     a rank's wait, and its middle take half of a straggler's lateness away);
//   - of messages alone, the line with the most room, with the bounds drawn in
//     as far as they allow by the least recorded duration of each kind.
// Then all are moved, as little as it takes, to where they are causal together
// (clock_causality.h).
#pragma once

#include <cstdint>
#include <vector>

#include "data/result.h"
#include "data/trace/trace.h"
#include "replay/collectives/collectives.h"

namespace reprise {

struct ClockAlignment {
  uint32_t rank = 0;
  int64_t offset_ns = 0;  ///< At the rank's first collective.
  double drift_ppm = 0;
  /// The true time lies within this of the aligned one, from the rank's first
  /// event to its last, as far as the bounds (or the measurement that was kept)
  /// tell; what peers are unsure of is in it. Ends within a collective's
  /// shortest stay of each other count as a bound too: on devices, whose
  /// kernels watch each other, as they are (of 8 V100: ends differ by less than
  /// a third of it), on hosts with what a thread may wait for a core. -1:
  /// nothing ties the rank to the lowest one.
  int64_t residual_ns = 0;
  bool measured_kept = false;  ///< The clock is as it was in the trace.
  int64_t collectives = 0;     ///< Used as bounds.
};

/// Aligns and writes the result into the trace's ranks; event times stay as
/// they are. By rank; the lowest one stays as it is. Ranks that share no
/// collective with an aligned one are aligned among themselves and keep their
/// measured clock; ranks of clock domain "none" are left alone. Requires: a run
/// with communication (a solo run's collectives bound nothing). Cost: O(members
/// of collectives) times a few dozen.
std::vector<ClockAlignment> align_clocks(TraceByRank& trace,
                                         const CollectiveMatching& matching);
std::vector<ClockAlignment> align_clocks(Trace& trace,
                                         const CollectiveMatching& matching);
std::vector<ClockAlignment> align_clocks(Trace& trace);

}  // namespace reprise
