#include "replay/collectives/program_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "data/collective/device_groups.h"
#include "replay/collectives/stream_clocks.h"

namespace reprise {
namespace {

/// Places in CollectiveCalls::calls, in the order of each rank.
using CallsOfRanks = std::map<uint32_t, std::vector<uint32_t>>;

class ProgramGroups {
 public:
  ProgramGroups(CollectiveCalls& calls, const std::vector<RankInfo>& ranks)
      : calls_(calls), numbers_(calls.groups) {
    for (const RankInfo& rank : ranks)
      clocks_[rank.rank] = {rank.host, rank.clock_domain};
  }

  void run() {
    std::map<int32_t, CallsOfRanks> lists;  // By communicator.
    for (uint32_t place = 0; place < calls_.calls.size(); ++place) {
      const CollectiveCall& call = calls_.calls[place];
      if (call.communicator >= 0 && call.group < 0)
        lists[call.communicator][call.rank].push_back(place);
    }
    for (const auto& [communicator, calls] : lists) {
      const auto groups =
          groups_named(calls_.communicators[static_cast<size_t>(communicator)]);
      if (groups) take(*groups, calls);
    }
    note();
  }

 private:
  void take(const std::vector<RankGroup>& groups, const CallsOfRanks& lists) {
    const auto is_told = [&](const RankGroup& group) {
      return on_one_host(group);
    };
    const bool told = !lacks_devices(groups) ||
                      std::all_of(groups.begin(), groups.end(), is_told);
    const bool hold = told && std::all_of(groups.begin(), groups.end(),
                                          [&](const RankGroup& group) {
                                            return can_be_one(group, lists);
                                          });
    size_t& counted = !told ? untold_ : hold ? taken_ : refused_;
    for (const RankGroup& group : groups) {
      int32_t number = -1;
      for (const uint32_t rank : group) {
        const auto list = lists.find(rank);
        if (list == lists.end()) continue;
        counted += list->second.size();
        if (hold && number < 0) number = numbers_.of(group);
        for (const uint32_t place : list->second) {
          CollectiveCall& call = calls_.calls[place];
          call.group = number;
          call.group_size = static_cast<int64_t>(group.size());
          if (!hold) call.communicator = -1;
        }
      }
    }
  }

  /// Whether some devices have no rank, and ranks are numbered through: by
  /// their place among the files alone, which tells no devices then.
  bool lacks_devices(const std::vector<RankGroup>& groups) const {
    size_t devices = 0;
    for (const RankGroup& group : groups) devices += group.size();
    return clocks_.size() < devices && !clocks_.empty() &&
           clocks_.rbegin()->first + 1 == clocks_.size();
  }

  /// Of those ranks that are there.
  bool on_one_host(const RankGroup& group) const {
    std::set<std::string> hosts;
    for (const uint32_t rank : group) {
      const auto found = clocks_.find(rank);
      if (found != clocks_.end()) hosts.insert(found->second.first);
    }
    return hosts.size() < 2;
  }

  bool can_be_one(const RankGroup& group, const CallsOfRanks& lists) const {
    size_t count = 0, apart = 0;
    for (const uint32_t rank : group) {
      const auto first = lists.find(group.front());
      const auto list = lists.find(rank);
      if (first == lists.end() || list == lists.end() ||
          first->second.size() != list->second.size() ||
          !share_a_clock(group.front(), rank))
        continue;
      for (size_t k = 0; k < list->second.size(); ++k) {
        const CollectiveCall& a = calls_.calls[first->second[k]];
        const CollectiveCall& b = calls_.calls[list->second[k]];
        ++count;
        apart += std::min(a.end_ns, b.end_ns) <
                 std::max(a.start_ns, b.start_ns) - kEndTogether;
      }
    }
    return apart * kApartInOne <= count;
  }

  bool share_a_clock(uint32_t a, uint32_t b) const {
    const auto one = clocks_.find(a), other = clocks_.find(b);
    return one != clocks_.end() && other != clocks_.end() &&
           one->second == other->second && one->second.second == "epoch";
  }

  void note() {
    if (taken_ > 0) {
      calls_.notes.push_back(fmt::format(
          "{} collectives are of the groups that the program states, devices "
          "being ranks in order.",
          taken_));
    }
    if (untold_ > 0) {
      calls_.notes.push_back(fmt::format(
          "{} collectives are of groups over several hosts that the program "
          "states, of more devices than are in the trace; nothing tells which "
          "these are: profile every host.",
          untold_));
    }
    if (refused_ > 0) {
      calls_.notes.push_back(fmt::format(
          "{} collectives are not of the groups that the program states, were "
          "devices ranks in order: some leave before others of their group "
          "come. The profiles of hosts may be named in another order than "
          "their devices.",
          refused_));
    }
  }

  CollectiveCalls& calls_;
  /// Rank -> host and what times count from.
  std::map<uint32_t, std::pair<std::string, std::string>> clocks_;
  GroupNumbers numbers_;
  size_t taken_ = 0, refused_ = 0, untold_ = 0;
};

}  // namespace

void take_program_groups(CollectiveCalls& calls,
                         const std::vector<RankInfo>& ranks) {
  const bool any = std::any_of(
      calls.communicators.begin(), calls.communicators.end(),
      [](const std::string& name) { return groups_named(name).has_value(); });
  if (any) ProgramGroups(calls, ranks).run();
}

}  // namespace reprise
