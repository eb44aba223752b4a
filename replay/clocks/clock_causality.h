// Clocks that are causal together: where ranks were placed one after the other,
// an early one may contradict a later one.
#pragma once

#include <cstddef>
#include <vector>

#include "data/trace/trace.h"
#include "replay/clocks/clock_meetings.h"

namespace reprise {

/// Moves clocks as little as makes nobody leave a meeting before another has
/// come, and no message arrive sooner than `least_share` of the least duration
/// of its kind. Little: the sum over clocks of the squares of what the middle
/// and the end of the record move by. Bounds that contradict those kept so far
/// (clocks that are no lines) stay broken. `ranks`: Trace::ranks.
/// `clock_of[place]`: a number from 0; ranks of one number have the same clock
/// and move together. Clocks that are not `movable` stay. Returns which moved,
/// `[clock]`. Cost: a pass over the meetings for every few hundred bounds
/// broken, and the square of the bounds that end up tight for each. Source: D.
/// Goldfarb, A. Idnani, "A numerically stable dual method for solving strictly
/// convex quadratic programs", Math. Programming 27 (1983).
std::vector<bool> make_causal(const ClockMeetings& meetings,
                              const std::vector<size_t>& clock_of,
                              const std::vector<bool>& movable,
                              std::vector<RankInfo>& ranks,
                              double least_share = 0);

}  // namespace reprise
