#include "replay/clocks/clock_residuals.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "replay/clocks/clock_bounds.h"

namespace reprise {
namespace {

using Unsure = ClockMeetings::Unsure;

// Whether by so much that another sweep is worth it.
bool shrink(int64_t& unsure_ns, int64_t open_ns) {
  if (open_ns >= unsure_ns) return false;
  const int64_t before_ns = std::exchange(unsure_ns, open_ns);
  return before_ns == Unsure::kUnknown ||
         open_ns < before_ns - before_ns / 1000;
}

Unsure open_of(const RankInfo& info, size_t place,
               const ClockMeetings& meetings) {
  auto bounds = meetings.bounds_of(place, info.clock_offset_ns, 0);
  const ClockRegion causal(bounds.low, bounds.high);
  const auto ends = meetings.end_bounds_of(place, info.clock_offset_ns);
  bounds.low.insert(bounds.low.end(), ends.low.begin(), ends.low.end());
  bounds.high.insert(bounds.high.end(), ends.high.begin(), ends.high.end());
  const ClockRegion narrow(std::move(bounds.low), std::move(bounds.high));
  const ClockRegion& region = narrow.is_feasible() ? narrow : causal;
  const ClockLine line = meetings.line_of(info, place, info.clock_offset_ns);
  const auto [first, last] = meetings.span_of(place);
  const double violation = region.violation(line);
  // Clocks that are no lines are within the violation of some.
  const bool lines = region.is_feasible();
  const ClockRegion wide = lines ? region : region.relaxed(violation);
  const auto rounded = [&](double open) {
    if (std::isinf(open)) return Unsure::kUnknown;
    constexpr int64_t kRounding = 4;  // Of the four times in a bound.
    return sum(kRounding,
               std::ceil(lines ? std::max(violation, open) : violation + open));
  };
  return {rounded(std::max(wide.below(line, first), wide.below(line, last))),
          rounded(std::max(wide.above(line, first), wide.above(line, last)))};
}

}  // namespace

void find_residuals(const std::vector<RankInfo>& ranks,
                    const std::vector<size_t>& order, ClockMeetings& meetings,
                    std::vector<PlacedClock>& clocks) {
  for (size_t sweep = 0; sweep < order.size() + 3; ++sweep) {
    bool shrunk = false;
    meetings.clear();
    for (const size_t place : order)
      meetings.know(ranks[place], place, clocks[place].unsure);
    for (const size_t place : order) {
      PlacedClock& clock = clocks[place];
      if (!clock.tied) continue;
      const bool shares = clock.shares != PlacedClock::kNobody;
      if (clock.kept && !shares) continue;
      const Unsure open = shares ? clocks[clock.shares].unsure
                                 : open_of(ranks[place], place, meetings);
      shrunk |= shrink(clock.unsure.below_ns, open.below_ns);
      shrunk |= shrink(clock.unsure.above_ns, open.above_ns);
    }
    if (!shrunk) return;
  }
}

}  // namespace reprise
