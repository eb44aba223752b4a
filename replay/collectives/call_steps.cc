#include "replay/collectives/call_steps.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "data/integers.h"
#include "data/median.h"

namespace reprise {
namespace {

using StepsOfRank = std::vector<StepMark>;  // By start.

std::map<uint32_t, StepsOfRank> steps_by_rank(const Trace& frame) {
  std::map<uint32_t, StepsOfRank> ranks;
  for (const StepMark& mark : frame.steps) ranks[mark.rank].push_back(mark);
  for (auto& [rank, steps] : ranks) {
    std::sort(steps.begin(), steps.end(), [](const auto& a, const auto& b) {
      return a.start_ns < b.start_ns;
    });
  }
  return ranks;
}

// Steps of one number that cannot be one, by ranks whose clocks show the time
// of day.
std::set<int32_t> steps_apart(const Trace& frame) {
  std::set<uint32_t> of_day;
  for (const RankInfo& rank : frame.ranks) {
    if (rank.clock_domain == "epoch") of_day.insert(rank.rank);
  }
  std::vector<int64_t> lengths;
  std::map<int32_t, std::pair<int64_t, int64_t>> starts;  // First and last.
  for (const StepMark& mark : frame.steps) {
    if (!of_day.contains(mark.rank)) continue;
    lengths.push_back(saturating_subtract(mark.end_ns, mark.start_ns));
    auto& [first, last] =
        starts.try_emplace(mark.step, mark.start_ns, mark.start_ns)
            .first->second;
    first = std::min(first, mark.start_ns);
    last = std::max(last, mark.start_ns);
  }
  std::set<int32_t> apart;
  if (lengths.empty()) return apart;
  const int64_t half_ns = median(lengths) / 2;
  for (const auto& [step, range] : starts) {
    if (saturating_subtract(range.second, range.first) > half_ns)
      apart.insert(step);
  }
  return apart;
}

int32_t step_at(const StepsOfRank& steps, int64_t time_ns) {
  const auto next = std::upper_bound(
      steps.begin(), steps.end(), time_ns,
      [](int64_t time, const StepMark& mark) { return time < mark.start_ns; });
  if (next == steps.begin()) return -1;
  const StepMark& step = *std::prev(next);
  return next != steps.end() || time_ns < step.end_ns ? step.step : -1;
}

}  // namespace

void give_steps(CollectiveCalls& calls, const Trace& frame) {
  const std::map<uint32_t, StepsOfRank> ranks = steps_by_rank(frame);
  const std::set<int32_t> apart = steps_apart(frame);
  for (CollectiveCall& call : calls.calls) {
    const bool placed = !call.device || call.order_ns < call.start_ns;
    const auto steps = ranks.find(call.rank);
    if (call.step >= 0 || call.unit >= 0 || !placed || steps == ranks.end())
      continue;
    const int32_t step = step_at(steps->second, call.order_ns);
    if (!apart.contains(step)) call.step = step;
  }
}

}  // namespace reprise
