#include "replay/collectives/inferred_groups.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "data/median.h"

namespace reprise {
namespace {

// Clocks of one host, read before and after a call.
constexpr int64_t kTolerance = 50'000;
// The ends of more members lie further apart: of four that leave at random,
// 1.8 times as far as of two.
constexpr int64_t kLooser = 3;
constexpr int64_t kLatest = std::numeric_limits<int64_t>::max() / 4;
// Of a kind, at most one call in so many may find no group.
constexpr size_t kLeastPartsLost = 10;

// Places in CollectiveCalls::calls of one kind, in the order of each rank.
using Lists = std::map<uint32_t, std::vector<uint32_t>>;

struct Choice {
  size_t group = 0;
  int64_t spread_ns = 0;  // Between the members' ends.
};

// The largest group that is about as tight as the tightest one.
std::optional<Choice> best_of(
    const std::vector<Choice>& choices,
    const std::vector<std::vector<uint32_t>>& groups) {
  std::optional<Choice> best;
  int64_t tightest_ns = std::numeric_limits<int64_t>::max();
  for (const Choice& one : choices)
    tightest_ns = std::min(tightest_ns, one.spread_ns);
  for (const Choice& one : choices) {
    if (one.spread_ns / kLooser > tightest_ns + kTolerance) continue;
    const auto is_better = [&](const Choice& other) {
      const size_t size = groups[one.group].size();
      const size_t than = groups[other.group].size();
      return size != than ? size > than : one.spread_ns < other.spread_ns;
    };
    if (!best || is_better(*best)) best = one;
  }
  return best;
}

class GroupInference {
 public:
  explicit GroupInference(CollectiveCalls& calls)
      : calls_(calls), groups_(calls.groups) {
    for (size_t group = 0; group < groups_.size(); ++group) {
      for (const uint32_t rank : groups_[group])
        of_rank_[rank].push_back(group);
    }
  }

  void run() {
    using Kind = std::pair<CollectiveKind, int64_t>;
    std::map<Kind, Lists> kinds;
    for (uint32_t place = 0; place < calls_.calls.size(); ++place) {
      const CollectiveCall& call = calls_.calls[place];
      if (call.communicator >= 0 || call.group >= 0 || call.unit >= 0 ||
          call.device || call.sequence >= 0 || is_message(call.kind))
        continue;
      const bool sized = facts_of(call.kind).has_one_size;
      kinds[{call.kind, sized ? call.bytes : 0}][call.rank].push_back(place);
    }
    for (const auto& [kind, lists] : kinds) {
      std::vector<Found> found = cover(lists);
      if (found.empty()) found = match_each(lists);
      std::move(found.begin(), found.end(), std::back_inserter(found_));
    }
    number();
  }

 private:
  struct Found {
    int64_t start_ns = 0;
    size_t group = 0;
    std::vector<uint32_t> members;  // Places of calls.
  };

  // How far apart the members leave, if they can have been in one collective.
  // Of one with a root, which may leave before others come or come after they
  // left, how long it lasted in all.
  std::optional<int64_t> spread_ns(const std::vector<uint32_t>& members) const {
    int64_t come_ns = kLatest, all_come_ns = -kLatest;
    int64_t leave_ns = kLatest, all_left_ns = -kLatest;
    for (const uint32_t place : members) {
      const CollectiveCall& call = calls_.calls[place];
      come_ns = std::min(come_ns, call.start_ns);
      all_come_ns = std::max(all_come_ns, call.start_ns);
      leave_ns = std::min(leave_ns, call.end_ns);
      all_left_ns = std::max(all_left_ns, call.end_ns);
    }
    if (facts_of(calls_.calls[members.front()].kind).joins_all_ranks) {
      if (leave_ns < all_come_ns - kTolerance) return std::nullopt;
      return all_left_ns - leave_ns;
    }
    if (leave_ns < come_ns - kTolerance) return std::nullopt;
    return all_left_ns - come_ns;
  }

  // Call `k` of each rank of a group; empty if one has no such call.
  std::vector<uint32_t> members_of(size_t group, const Lists& lists,
                                   size_t k) const {
    std::vector<uint32_t> members;
    for (const uint32_t rank : groups_[group]) {
      const auto list = lists.find(rank);
      if (list == lists.end() || k >= list->second.size()) return {};
      members.push_back(list->second[k]);
    }
    return members;
  }

  // The group as that of all calls of its ranks, if times allow.
  std::optional<Choice> choice_of(size_t group, const Lists& lists) const {
    const auto first = lists.find(groups_[group].front());
    if (first == lists.end()) return std::nullopt;
    for (const uint32_t rank : groups_[group]) {
      const auto list = lists.find(rank);
      if (list == lists.end() || list->second.size() != first->second.size())
        return std::nullopt;
    }
    std::vector<int64_t> spreads;
    for (size_t k = 0; k < first->second.size(); ++k) {
      const auto spread = spread_ns(members_of(group, lists, k));
      if (!spread) return std::nullopt;
      spreads.push_back(*spread);
    }
    return Choice{group, median(spreads)};
  }

  // Groups such that each rank is in one; nothing if there are none.
  std::vector<Found> cover(const Lists& lists) {
    std::set<uint32_t> covered;
    std::vector<size_t> chosen;
    for (const auto& [rank, list] : lists) {
      if (covered.contains(rank)) continue;
      std::vector<Choice> choices;
      for (const size_t group : groups_of(rank)) {
        const bool is_free = std::none_of(
            groups_[group].begin(), groups_[group].end(),
            [&](uint32_t member) { return covered.contains(member); });
        if (!is_free) continue;
        if (const auto choice = choice_of(group, lists))
          choices.push_back(*choice);
      }
      const auto best = best_of(choices, groups_);
      if (!best) return {};
      chosen.push_back(best->group);
      covered.insert(groups_[best->group].begin(), groups_[best->group].end());
    }
    std::vector<Found> found;
    for (const size_t group : chosen) {
      const size_t count = lists.at(groups_[group].front()).size();
      for (size_t k = 0; k < count; ++k)
        found.push_back(found_of(group, members_of(group, lists, k)));
    }
    return found;
  }

  // Call by call, the earliest first. Too many calls without a group, and none
  // of the kind has one.
  std::vector<Found> match_each(Lists lists) const {
    std::vector<Found> found;
    size_t calls = 0, lost = 0;
    for (auto& [rank, list] : lists) {
      calls += list.size();
      std::reverse(list.begin(), list.end());  // The next one is the last.
    }
    while (true) {
      uint32_t next = kNone;
      for (const auto& [rank, list] : lists) {
        if (list.empty()) continue;
        if (next == kNone ||
            calls_.calls[list.back()].start_ns < calls_.calls[next].start_ns)
          next = list.back();
      }
      if (next == kNone) break;
      lost += !match_next(calls_.calls[next].rank, lists, found);
    }
    if (lost * kLeastPartsLost > calls) found.clear();
    return found;
  }

  bool match_next(uint32_t rank, Lists& lists,
                  std::vector<Found>& found) const {
    std::vector<Choice> choices;
    const auto next_of = [&](size_t group) {
      std::vector<uint32_t> members;
      for (const uint32_t member : groups_[group]) {
        const auto list = lists.find(member);
        if (list == lists.end() || list->second.empty())
          return std::vector<uint32_t>();
        members.push_back(list->second.back());
      }
      return members;
    };
    for (const size_t group : groups_of(rank)) {
      const std::vector<uint32_t> members = next_of(group);
      if (members.empty()) continue;
      if (const auto spread = spread_ns(members))
        choices.push_back({group, *spread});
    }
    const auto best = best_of(choices, groups_);
    if (!best) {
      lists[rank].pop_back();
      return false;
    }
    found.push_back(found_of(best->group, next_of(best->group)));
    for (const uint32_t member : groups_[best->group]) lists[member].pop_back();
    return true;
  }

  const std::vector<size_t>& groups_of(uint32_t rank) const {
    static const std::vector<size_t> none;
    const auto found = of_rank_.find(rank);
    return found == of_rank_.end() ? none : found->second;
  }

  Found found_of(size_t group, std::vector<uint32_t> members) const {
    int64_t start_ns = std::numeric_limits<int64_t>::max();
    for (const uint32_t place : members)
      start_ns = std::min(start_ns, calls_.calls[place].start_ns);
    return {start_ns, group, std::move(members)};
  }

  // In each group, by who came first.
  void number() {
    std::sort(found_.begin(), found_.end(), [](const Found& a, const Found& b) {
      return std::tie(a.start_ns, a.members) < std::tie(b.start_ns, b.members);
    });
    std::vector<int64_t> next(groups_.size(), 0);
    for (const Found& one : found_) {
      const int64_t sequence = next[one.group]++;
      for (const uint32_t place : one.members) {
        CollectiveCall& call = calls_.calls[place];
        call.group = static_cast<int32_t>(one.group);
        call.group_size = static_cast<int64_t>(groups_[one.group].size());
        call.sequence = sequence;
      }
    }
    if (found_.empty()) return;
    calls_.notes.push_back(fmt::format(
        "{} collectives name no communicator: each is taken for one of the "
        "largest process group that recorded times allow.",
        found_.size()));
  }

  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();
  CollectiveCalls& calls_;
  const std::vector<std::vector<uint32_t>>& groups_;
  std::map<uint32_t, std::vector<size_t>> of_rank_;  // Places of its groups.
  std::vector<Found> found_;
};

// Whether what is listed tells groups apart, and all of their ranks are there.
bool lists_groups(const CollectiveCalls& calls) {
  std::set<uint32_t> recorded;
  for (const CollectiveCall& call : calls.calls) recorded.insert(call.rank);
  size_t several = 0;
  for (const std::vector<uint32_t>& group : calls.groups) {
    several += group.size() > 1;
    const bool there =
        std::all_of(group.begin(), group.end(),
                    [&](uint32_t rank) { return recorded.contains(rank); });
    if (!there) return false;
  }
  return several > 1;
}

}  // namespace

void infer_groups(CollectiveCalls& calls) {
  if (lists_groups(calls)) GroupInference(calls).run();
}

}  // namespace reprise
