// How far the true time of each clock may be from the aligned one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "data/trace/trace.h"
#include "replay/clocks/clock_meetings.h"

namespace reprise {

/// A rank's clock on its way to the lowest rank's.
struct PlacedClock {
  static constexpr size_t kNobody = std::numeric_limits<size_t>::max();
  static constexpr int64_t kUnknown = ClockMeetings::Unsure::kUnknown;

  bool placed = false, kept = false;
  bool tied = false;        ///< To the lowest rank, however indirectly.
  bool one_sided = false;   ///< Those placed before bounded it from one side.
  size_t shares = kNobody;  ///< Whose clock it has, by host.
  ClockMeetings::Unsure unsure = {kUnknown, kUnknown};
  int64_t collectives = 0;

  void know_within(int64_t unsure_ns) { unsure = {unsure_ns, unsure_ns}; }
  bool is_unknown() const {
    return unsure.below_ns == kUnknown || unsure.above_ns == kUnknown;
  }
};

/// Fills in `unsure`: what bounds leave open, given what the peers' bounds
/// leave open on the same side. Starts with nobody's but those that are known
/// (the lowest rank's and the measured ones), and only shrinks. `ranks`:
/// Trace::ranks, aligned; `clocks` by place among them, in the `order` of their
/// ranks. Forgets what `meetings` knew.
void find_residuals(const std::vector<RankInfo>& ranks,
                    const std::vector<size_t>& order, ClockMeetings& meetings,
                    std::vector<PlacedClock>& clocks);

}  // namespace reprise
