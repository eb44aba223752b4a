#include "replay/analysis/stragglers.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "data/collective/collective.h"
#include "data/integers.h"
#include "data/trace/intervals.h"

namespace reprise {
namespace {

/// Places of the last and the second to last member to arrive.
std::pair<size_t, size_t> last_two(const std::vector<int64_t>& wait_ns) {
  size_t last = 0, before = 1;
  if (wait_ns[before] < wait_ns[last]) std::swap(last, before);
  for (size_t i = 2; i < wait_ns.size(); ++i) {
    if (wait_ns[i] < wait_ns[last]) {
      before = last;
      last = i;
    } else if (wait_ns[i] < wait_ns[before]) {
      before = i;
    }
  }
  return {last, before};
}

/// What ranks waited since the last collective of a group, in others.
class WaitsBetween {
 public:
  /// How much longer member `last` waited than member `before`.
  int64_t longer_ns(const std::vector<CollectiveMember>& members, size_t last,
                    size_t before) {
    const std::vector<int64_t>& met = met_[ranks_of(members)];
    const auto since = [&](size_t member) {
      return waited_[members[member].rank] - (met.empty() ? 0 : met[member]);
    };
    return since(last) - since(before);
  }

  void add(const std::vector<CollectiveMember>& members,
           const std::vector<int64_t>& wait_ns) {
    for (size_t i = 0; i < members.size(); ++i) {
      int64_t& waited = waited_[members[i].rank];
      waited = saturating_add(waited, wait_ns[i]);
    }
    std::vector<int64_t>& met = met_[ranks_of(members)];
    met.clear();
    met.reserve(members.size());
    for (const CollectiveMember& each : members)
      met.push_back(waited_[each.rank]);
  }

 private:
  static std::vector<uint32_t> ranks_of(
      const std::vector<CollectiveMember>& members) {
    std::vector<uint32_t> ranks;
    ranks.reserve(members.size());
    for (const CollectiveMember& each : members) ranks.push_back(each.rank);
    return ranks;
  }

  std::map<uint32_t, int64_t> waited_;                         // [rank]
  std::map<std::vector<uint32_t>, std::vector<int64_t>> met_;  // [group]
};

}  // namespace

std::vector<Straggler> find_stragglers(const Trace& trace,
                                       const CollectiveMatching& matching,
                                       std::span<const CollectiveTimes> times,
                                       std::span<const uint32_t> chosen) {
  std::map<uint32_t, Straggler> by_rank;
  std::map<uint32_t, int64_t> doubt_ns;
  for (const RankInfo& rank : trace.ranks) {
    doubt_ns[rank.rank] = std::max(rank.clock_residual_ns, int64_t{0});
  }
  WaitsBetween waits;
  for (const uint32_t place : chosen) {
    const std::vector<CollectiveMember>& members =
        matching.collectives[place].members;
    const std::vector<int64_t>& wait_ns = times[place].wait_ns;
    if (members.size() < 2 || wait_ns.size() != members.size()) continue;
    if (is_message(matching.collectives[place].kind)) {
      waits.add(members, wait_ns);
      continue;
    }
    for (size_t i = 0; i < members.size(); ++i) {
      Straggler& member = by_rank[members[i].rank];
      ++member.collectives;
      member.waited_ns = saturating_add(member.waited_ns, wait_ns[i]);
    }
    const auto [last, before] = last_two(wait_ns);
    const int64_t late_ns = wait_ns[before] - wait_ns[last];
    const int64_t longer_ns = waits.longer_ns(members, last, before);
    waits.add(members, wait_ns);
    if (late_ns <= std::max(doubt_ns[members[last].rank],
                            doubt_ns[members[before].rank])) {
      continue;
    }
    Straggler& late = by_rank[members[last].rank];
    ++late.last;
    late.late_ns = saturating_add(late.late_ns, late_ns);
    late.passed_on_ns = saturating_add(
        late.passed_on_ns, std::clamp(longer_ns, int64_t{0}, late_ns));
    late.imposed_ns = std::accumulate(wait_ns.begin(), wait_ns.end(),
                                      late.imposed_ns, saturating_add);
  }
  std::vector<Straggler> result;
  for (auto& [rank, straggler] : by_rank) {
    straggler.rank = rank;
    result.push_back(straggler);
  }
  const auto earlier_ns = [](const Straggler& one) {
    return one.passed_on_ns - one.late_ns;
  };
  std::sort(result.begin(), result.end(),
            [&](const Straggler& a, const Straggler& b) {
              return std::tuple(earlier_ns(a), -a.late_ns, a.rank) <
                     std::tuple(earlier_ns(b), -b.late_ns, b.rank);
            });
  return result;
}

}  // namespace reprise
