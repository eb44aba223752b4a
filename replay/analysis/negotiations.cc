#include "replay/analysis/negotiations.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "data/integers.h"
#include "data/io/decimal.h"
#include "data/io/json_scan.h"
#include "data/trace/intervals.h"

namespace reprise {
namespace {

using Ready = std::pair<int64_t, uint32_t>;  // Time and rank.

// Of an event's attributes {"ready_ns":{"0":0,"2":1200}}, by time; empty if
// they are others.
std::vector<Ready> ready_of(const Trace& trace, const Event& event) {
  std::vector<Ready> ready;
  if (event.kind != EventKind::kAnnotation || event.attributes < 0)
    return ready;
  JsonScanner members(trace.strings[static_cast<size_t>(event.attributes)]);
  while (members.next()) {
    if (members.key() != "ready_ns") continue;
    JsonScanner ranks(members.value());
    while (ranks.next()) {
      const auto rank = parse_integer(ranks.key());
      const auto after_ns = parse_integer(ranks.value());
      if (!rank || !after_ns) continue;
      ready.emplace_back(saturating_add(event.start_ns, *after_ns),
                         static_cast<uint32_t>(*rank));
    }
  }
  std::sort(ready.begin(), ready.end());
  return ready;
}

// Times of one rank.
struct RankTimes {
  int64_t negotiations = 0, last = 0;
  std::vector<Interval> late, waited;
};

int64_t length_of(std::vector<Interval>&& intervals) {
  return IntervalSet(std::move(intervals)).length_ns();
}

}  // namespace

std::vector<Straggler> find_negotiated_stragglers(const RankEvents& events) {
  std::map<uint32_t, RankTimes> ranks;
  // [last rank, other rank] When the other one waited for it.
  std::map<std::pair<uint32_t, uint32_t>, std::vector<Interval>> imposed;
  for (uint32_t at = events.first; at < events.last; ++at) {
    const std::vector<Ready> ready =
        ready_of(events.trace, events.trace.events[at]);
    if (ready.size() < 2) continue;
    const auto [all_ns, last] = ready.back();
    const int64_t before_ns = ready[ready.size() - 2].first;
    for (const auto& [time_ns, rank] : ready) {
      RankTimes& times = ranks[rank];
      ++times.negotiations;
      if (time_ns == all_ns) continue;
      times.waited.push_back({time_ns, all_ns});
      if (before_ns < all_ns)
        imposed[{last, rank}].push_back({time_ns, all_ns});
    }
    if (before_ns == all_ns) continue;
    ++ranks[last].last;
    ranks[last].late.push_back({before_ns, all_ns});
  }
  std::vector<Straggler> found;
  for (auto& [rank, times] : ranks) {
    found.push_back({.rank = rank,
                     .collectives = times.negotiations,
                     .last = times.last,
                     .late_ns = length_of(std::move(times.late)),
                     .waited_ns = length_of(std::move(times.waited))});
    for (auto& [pair, waits] : imposed) {
      if (pair.first != rank) continue;
      found.back().imposed_ns =
          saturating_add(found.back().imposed_ns, length_of(std::move(waits)));
    }
  }
  std::sort(found.begin(), found.end(),
            [](const Straggler& a, const Straggler& b) {
              return std::tie(b.late_ns, a.rank) < std::tie(a.late_ns, b.rank);
            });
  return found;
}

}  // namespace reprise
