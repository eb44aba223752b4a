#include "replay/clock_alignment.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include "costmodel/recorded_steps.h"

namespace reprise {
namespace {

constexpr double kMostDrift = 1e-3;  // 1000 ppm: any oscillator is within.

// At time `at` (after the reference, on the rank's clock) the correction lies
// in [low, high]; either may be infinite.
struct Bound {
  double at = 0, low = -INFINITY, high = INFINITY;
};

struct Range {
  double low = -INFINITY, high = INFINITY;
  double room() const { return high - low; }
};

// Offsets at the reference that meet all bounds under a drift.
Range offsets_under(const std::vector<Bound>& bounds, double drift) {
  Range range;
  for (const Bound& bound : bounds) {
    range.low = std::max(range.low, bound.low - drift * bound.at);
    range.high = std::min(range.high, bound.high - drift * bound.at);
  }
  return range;
}

// Maximizes a concave function of the drift.
template <typename Value>
double best_drift(Value value, double low, double high) {
  constexpr int kRounds = 80;
  for (int round = 0; round < kRounds; ++round) {
    const double left = low + (high - low) / 3, right = high - (high - low) / 3;
    if (value(left) < value(right)) {
      low = left;
    } else {
      high = right;
    }
  }
  return (low + high) / 2;
}

// Half the distance between the highest and the lowest line through all bounds,
// at the worse end of the record.
double uncertainty(const std::vector<Bound>& bounds, double drift) {
  double worst = 0;
  for (const double at : {bounds.front().at, bounds.back().at}) {
    const auto highest = [&](double d) {
      const Range range = offsets_under(bounds, d);
      return range.room() < 0 ? range.room() * 1e6 : range.high + d * at;
    };
    const auto lowest = [&](double d) {
      const Range range = offsets_under(bounds, d);
      return range.room() < 0 ? range.room() * 1e6 : -(range.low + d * at);
    };
    // Where a drift leaves no room, the search is led back to where one does.
    double high = -INFINITY, low = INFINITY;
    for (const auto& [from, to] :
         {std::pair(-kMostDrift, drift), std::pair(drift, kMostDrift)}) {
      const double up = best_drift(highest, from, to);
      const double down = best_drift(lowest, from, to);
      if (offsets_under(bounds, up).room() >= 0) {
        high = std::max(high, highest(up));
      }
      if (offsets_under(bounds, down).room() >= 0) {
        low = std::min(low, -lowest(down));
      }
    }
    if (high >= low) worst = std::max(worst, (high - low) / 2);
  }
  return worst;
}

ClockAlignment fit_line(const RankInfo& measured, int64_t reference_ns,
                        std::vector<Bound> bounds) {
  std::sort(bounds.begin(), bounds.end(),
            [](const Bound& a, const Bound& b) { return a.at < b.at; });
  const double drift = measured.clock_drift_ppm * 1e-6;
  const double since_measured =
      static_cast<double>(reference_ns - measured.clock_reference_ns);
  const double offset =
      static_cast<double>(measured.clock_offset_ns) + drift * since_measured;
  ClockAlignment result{.rank = measured.rank,
                        .offset_ns = std::llround(offset),
                        .drift_ppm = measured.clock_drift_ppm,
                        .residual_ns = measured.clock_residual_ns,
                        .measured_kept = true,
                        .collectives = static_cast<int64_t>(bounds.size() / 2)};
  const Range range = offsets_under(bounds, drift);
  if (range.low <= offset && offset <= range.high) return result;
  result.measured_kept = false;
  // A measurement that says how good it is may be nudged; else the widest line.
  double chosen = drift;
  double nearest =
      std::clamp(offset, range.low, std::max(range.low, range.high));
  const double allowed = 2 * static_cast<double>(measured.clock_residual_ns);
  if (range.room() < 0 || std::abs(nearest - offset) > allowed) {
    chosen =
        best_drift([&](double d) { return offsets_under(bounds, d).room(); },
                   -kMostDrift, kMostDrift);
    const Range widest = offsets_under(bounds, chosen);
    nearest = (widest.low + widest.high) / 2;
  }
  const double room = offsets_under(bounds, chosen).room();
  const double residual = room < 0 ? -room / 2 : uncertainty(bounds, chosen);
  result.offset_ns = std::llround(nearest);
  result.drift_ppm = chosen * 1e6;
  result.residual_ns = std::llround(std::ceil(residual)) + 1;
  return result;
}

// One collective on all ranks that recorded it.
using Meeting = std::map<uint32_t, const Event*>;  // By rank.

std::vector<Meeting> find_meetings(const Trace& trace) {
  std::map<std::pair<int32_t, int32_t>, Meeting> by_step_and_unit;
  for (const Event& event : trace.events) {
    if (event.kind != EventKind::kCollective || event.unit < 0) continue;
    by_step_and_unit[{event.step, event.unit}].insert({event.rank, &event});
  }
  std::vector<Meeting> meetings;
  for (auto& [key, meeting] : by_step_and_unit) {
    if (meeting.size() > 1) meetings.push_back(std::move(meeting));
  }
  return meetings;
}

// Bounds of `rank` from the meetings with ranks that are aligned already.
std::vector<Bound> bounds_of(const std::map<uint32_t, RankInfo*>& aligned,
                             const std::vector<Meeting>& meetings,
                             uint32_t rank, int64_t reference_ns) {
  std::vector<Bound> bounds;
  for (const Meeting& meeting : meetings) {
    const auto own = meeting.find(rank);
    if (own == meeting.end()) continue;
    const Event& event = *own->second;
    Bound at_end{.at = static_cast<double>(event.end_ns - reference_ns)};
    Bound at_start{.at = static_cast<double>(event.start_ns - reference_ns)};
    bool bounded = false;
    for (const auto& [other, seen] : meeting) {
      const auto peer = aligned.find(other);
      if (peer == aligned.end() || other == rank) continue;
      const int64_t start_ns = on_first_clock(*peer->second, seen->start_ns);
      const int64_t end_ns = on_first_clock(*peer->second, seen->end_ns);
      at_end.low =
          std::max(at_end.low, static_cast<double>(start_ns - event.end_ns));
      at_start.high =
          std::min(at_start.high, static_cast<double>(end_ns - event.start_ns));
      bounded = true;
    }
    if (!bounded) continue;
    bounds.push_back(at_end);
    bounds.push_back(at_start);
  }
  return bounds;
}

std::optional<int64_t> first_meeting_ns(const std::vector<Meeting>& meetings,
                                        uint32_t rank) {
  std::optional<int64_t> first;
  for (const Meeting& meeting : meetings) {
    const auto own = meeting.find(rank);
    if (own == meeting.end()) continue;
    const int64_t start_ns = own->second->start_ns;
    if (!first || start_ns < *first) first = start_ns;
  }
  return first;
}

}  // namespace

std::vector<ClockAlignment> align_clocks(Trace& trace) {
  const std::vector<Meeting> meetings = find_meetings(trace);
  std::map<uint32_t, RankInfo*> waiting, aligned;
  for (RankInfo& info : trace.ranks) waiting[info.rank] = &info;
  std::vector<ClockAlignment> result;
  const auto keep = [&](RankInfo& info) {
    result.push_back({.rank = info.rank,
                      .offset_ns = info.clock_offset_ns,
                      .drift_ppm = info.clock_drift_ppm,
                      .residual_ns = info.clock_residual_ns,
                      .measured_kept = true});
    aligned[info.rank] = &info;
  };
  // Rank by rank, each against all that are aligned; a rank without a shared
  // collective waits until nothing else can be aligned.
  while (!waiting.empty()) {
    bool progressed = false;
    for (auto at = waiting.begin(); at != waiting.end();) {
      RankInfo& info = *at->second;
      const auto reference = first_meeting_ns(meetings, info.rank);
      std::vector<Bound> bounds;
      if (reference && !aligned.empty()) {
        bounds = bounds_of(aligned, meetings, info.rank, *reference);
      }
      if (bounds.empty()) {
        ++at;
        continue;
      }
      const ClockAlignment line = fit_line(info, *reference, bounds);
      info.clock_offset_ns = line.offset_ns;
      info.clock_drift_ppm = line.drift_ppm;
      info.clock_reference_ns = *reference;
      info.clock_residual_ns = line.residual_ns;
      aligned[info.rank] = &info;
      result.push_back(line);
      at = waiting.erase(at);
      progressed = true;
    }
    if (progressed || waiting.empty()) continue;
    keep(*waiting.begin()->second);
    waiting.erase(waiting.begin());
  }
  return result;
}

}  // namespace reprise
