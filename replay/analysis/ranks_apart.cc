#include "replay/analysis/ranks_apart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "data/trace/epoch.h"

namespace reprise {
namespace {

/// Steps of which the first rank with any has none.
std::optional<std::string> no_common_step(const Trace& trace) {
  std::map<uint32_t, std::set<int32_t>> steps;
  for (const StepMark& mark : trace.steps) steps[mark.rank].insert(mark.step);
  if (steps.empty()) return std::nullopt;
  const uint32_t first = steps.begin()->first;
  const std::set<int32_t>& numbers = steps.begin()->second;
  const auto shares_none = [&](const auto& rank) {
    return std::none_of(rank.second.begin(), rank.second.end(),
                        [&](int32_t step) { return numbers.contains(step); });
  };
  const auto other = std::find_if(steps.begin(), steps.end(), shares_none);
  if (other == steps.end()) return std::nullopt;
  return fmt::format(
      "Ranks {} and {} have no step in common (from {} and from "
      "{} on)",
      first, other->first, *numbers.begin(), *other->second.begin());
}

/// Clocks that count from the epoch, of different hosts too, differ by far
/// less than two recordings that share no instant.
std::optional<std::string> no_common_time(const Trace& trace,
                                          const Analysis& analysis) {
  const auto tells_time = [&](const RankAnalysis& rank) {
    return std::any_of(
        trace.ranks.begin(), trace.ranks.end(), [&](const RankInfo& info) {
          return info.rank == rank.rank && info.clock_domain == "epoch";
        });
  };
  const auto begin_ns = [](const RankAnalysis& each) {
    return each.window.window_start_ns;
  };
  const RankAnalysis* first = nullptr;
  for (const RankAnalysis& rank : analysis.ranks) {
    if (!tells_time(rank) || begin_ns(rank) < kEpochNs) continue;
    if (first == nullptr) first = &rank;
    const auto apart_ns = [&](const RankAnalysis& a, const RankAnalysis& b) {
      return begin_ns(b) - begin_ns(a) - a.window.window_ns;
    };
    const int64_t apart =
        std::max(apart_ns(*first, rank), apart_ns(rank, *first));
    if (apart <= 0) continue;
    return fmt::format(
        "Ranks {} and {} were recorded {:.4g} s apart, by their clocks",
        first->rank, rank.rank, static_cast<double>(apart) / 1e9);
  }
  return std::nullopt;
}

/// What clocks would have to be for the collectives to be each other's.
std::optional<std::string> absurd_clock(const Analysis& analysis) {
  constexpr double kMostPpm = 999;  // ClockAlignment allows 1000.
  for (const ClockAlignment& clock : analysis.clocks) {
    if (std::abs(clock.drift_ppm) < kMostPpm || clock.measured_kept) continue;
    return fmt::format(
        "Rank {}'s clock would have to drift by 1000 ppm or more (a quartz: "
        "100) for its collectives to be those of the others",
        clock.rank);
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> ranks_apart(const Trace& trace,
                                       const Analysis& analysis) {
  std::optional<std::string> apart = no_common_step(trace);
  if (!apart) apart = no_common_time(trace, analysis);
  if (!apart) apart = absurd_clock(analysis);
  if (!apart) return std::nullopt;
  return *apart +
         ": were they recorded at the same time, in one run? If not, no wait "
         "between them is true.";
}

}  // namespace reprise
