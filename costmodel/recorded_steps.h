// A trace of our trainer as steps: what each rank ran when, on rank 0's clock,
// with the collectives split into wait and transfer. Everything that is fitted
// is fitted from this.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <vector>

#include "data/result.h"
#include "data/schedule/schedule.h"
#include "data/trace/trace.h"

namespace reprise {

/// One compute unit as one rank ran it once.
struct RecordedUnit {
  uint32_t unit = 0;
  int64_t start_ns = 0, end_ns = 0;
  int64_t beside_ns = 0;  ///< Of it, beside a transfer in flight on this rank.
};

/// One collective of one step, of ranks that meet: a unit among groups of the
/// ranks is one transfer a group.
struct RecordedTransfer {
  uint32_t unit = 0;
  std::vector<uint32_t> members;  ///< Ascending.
  double bytes = 0;
  int64_t start_ns = 0;   ///< Last arrival.
  int64_t end_ns = 0;     ///< Mean end, kept leads counted as stayed.
  int64_t beside_ns = 0;  ///< Of the transfer, while any rank computed.
  std::vector<int64_t> arrival_ns, left_ns;  ///< [member], own start and end.
  /// [member], by how much it came before the last one and still left before
  /// the last one.
  std::vector<int64_t> kept_lead_ns;

  /// The rank's place among the members, or nothing.
  std::optional<size_t> place_of(size_t rank) const {
    const auto found = std::lower_bound(members.begin(), members.end(), rank);
    if (found == members.end() || *found != rank) return std::nullopt;
    return static_cast<size_t>(found - members.begin());
  }
};

struct RecordedRank {
  int64_t start_ns = 0, end_ns = 0;
  int64_t feed_ns = 0;
  int64_t feed_end_ns = 0;            ///< start_ns when no feed was recorded.
  std::vector<RecordedUnit> compute;  ///< By start.
};

struct RecordedStep {
  int32_t step = 0;
  int64_t time_ns = 0;                      ///< Maximum over ranks.
  std::vector<RecordedRank> ranks;          ///< [rank]
  std::vector<RecordedTransfer> transfers;  ///< By start.
};

/// Reads the steps of a trace that are no warm-up and that every rank finished.
/// `recorded` is the schedule that ran.
/// Errors: kInvalid when the trace names units that the schedule lacks, has
/// no such step, or times that no clock shows.
Result<std::vector<RecordedStep>> recorded_steps(const Trace& trace,
                                                 const Schedule& recorded);

/// The steps whose time is nearest to the median: half of them, of many a
/// quarter, of fewer than 4 all. The mean of anything over these is robust, and
/// means add up; the fewer, the nearer they are to the median that is measured,
/// and where steps are of two kinds they are of one. `Step` has `step` and
/// `time_ns`.
template <typename Step>
std::vector<Step> middle_steps(std::vector<Step> steps) {
  constexpr size_t kEnough = 16;
  if (steps.size() < 4) return steps;
  std::vector<int64_t> times_ns;
  times_ns.reserve(steps.size());
  for (const Step& step : steps) times_ns.push_back(step.time_ns);
  std::sort(times_ns.begin(), times_ns.end());
  const size_t count = steps.size();
  const int64_t twice_median_ns =
      times_ns[(count - 1) / 2] + times_ns[count / 2];
  const auto distance = [&](const Step& step) {
    return std::pair(std::abs(2 * step.time_ns - twice_median_ns), step.step);
  };
  std::vector<std::pair<int64_t, int32_t>> distances;
  distances.reserve(count);
  for (const Step& step : steps) distances.push_back(distance(step));
  std::sort(distances.begin(), distances.end());
  const size_t half = count - 2 * (count / 4);
  const auto farthest =
      distances[std::min(half, std::max(kEnough, count / 4)) - 1];
  std::erase_if(steps,
                [&](const Step& step) { return distance(step) > farthest; });
  return steps;
}

}  // namespace reprise
