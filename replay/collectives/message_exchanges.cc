#include "replay/collectives/message_exchanges.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

namespace reprise {
namespace {

/// As ranks, ascending; none where they are counted in a group that is not
/// known, or beyond its end.
std::optional<RankGroup> ranks_of(const std::vector<int32_t>& peers,
                                  bool in_group, const CollectiveCall& call,
                                  const CollectiveCalls& calls) {
  if (in_group && call.group < 0) return std::nullopt;
  RankGroup ranks;
  for (const int32_t peer : peers) {
    auto rank = static_cast<uint32_t>(peer);
    if (in_group) {
      const RankGroup& group = calls.groups[static_cast<size_t>(call.group)];
      if (rank >= group.size()) return std::nullopt;
      rank = group[rank];
    }
    ranks.push_back(rank);
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

}  // namespace

std::vector<RankGroup> senders_of(std::span<const uint32_t> members,
                                  const CollectiveCalls& calls) {
  std::vector<RankGroup> senders;
  std::set<std::pair<uint32_t, uint32_t>> sent, awaited;  // From, to.
  for (const uint32_t i : members) {
    const CollectiveCall& call = calls.calls[i];
    if (call.exchange < 0) return {};
    const ExchangePeers& peers =
        calls.exchanges[static_cast<size_t>(call.exchange)];
    const auto to = ranks_of(peers.to, peers.in_group, call, calls);
    const auto from = ranks_of(peers.from, peers.in_group, call, calls);
    if (!to || !from) return {};
    for (const uint32_t rank : *to) sent.emplace(call.rank, rank);
    for (const uint32_t rank : *from) awaited.emplace(rank, call.rank);
    senders.push_back(*from);
  }
  if (sent != awaited) return {};
  return senders;
}

}  // namespace reprise
