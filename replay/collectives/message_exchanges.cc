#include "replay/collectives/message_exchanges.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

namespace reprise {
namespace {

struct Peers {
  RankGroup to, from;
};

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

/// None where they are not known.
std::optional<Peers> peers_of(const CollectiveCall& call,
                              const CollectiveCalls& calls) {
  if (call.exchange >= 0) {
    const ExchangePeers& peers =
        calls.exchanges[static_cast<size_t>(call.exchange)];
    auto to = ranks_of(peers.to, peers.in_group, call, calls);
    auto from = ranks_of(peers.from, peers.in_group, call, calls);
    if (!to || !from) return std::nullopt;
    return Peers{std::move(*to), std::move(*from)};
  }
  if (call.peer < 0 || call.peer_in_group || !is_message(call.kind))
    return std::nullopt;
  const auto peer = static_cast<uint32_t>(call.peer);
  const bool sends = call.kind == CollectiveKind::kSend;
  Peers one;
  if (sends) one.to = {peer};
  if (!sends || call.both_ways) one.from = {peer};
  return one;
}

/// A kernel of messages.
struct Batch {
  uint32_t call = 0;  ///< Place in CollectiveCalls::calls.
  uint32_t rank = 0;
  int32_t step = -1;
  Peers peers;
};

class ExchangeMatcher {
 public:
  explicit ExchangeMatcher(std::vector<Batch> batches)
      : batches_(std::move(batches)), tied_(batches_.size()) {
    std::iota(tied_.begin(), tied_.end(), 0U);
    for (const Batch& batch : batches_) recorded_.insert(batch.rank);
  }

  MessageExchanges match() && {
    std::map<int32_t, std::vector<uint32_t>> steps;
    std::vector<uint32_t> all(batches_.size());
    std::iota(all.begin(), all.end(), 0U);
    for (const uint32_t at : all) steps[batches_[at].step].push_back(at);
    if (!tie(all)) {
      for (const auto& [step, own] : steps) {
        const bool whole = step >= 0 && steps.size() > 1 && tie(own);
        if (!whole) unmatched_.insert(own.begin(), own.end());
      }
    }
    return exchanges();
  }

 private:
  using Ends = std::pair<std::vector<uint32_t>, std::vector<uint32_t>>;

  // Ties the two ends of each message, where each has both and most lie in one
  // step; false, and nothing tied, where not.
  bool tie(const std::vector<uint32_t>& batches) {
    std::map<std::pair<uint32_t, uint32_t>, Ends> ends;  // Of from, to.
    for (const uint32_t at : batches) {
      const Batch& batch = batches_[at];
      for (const uint32_t rank : batch.peers.to) {
        if (recorded_.contains(rank))
          ends[{batch.rank, rank}].first.push_back(at);
      }
      for (const uint32_t rank : batch.peers.from) {
        if (recorded_.contains(rank))
          ends[{rank, batch.rank}].second.push_back(at);
      }
    }
    size_t known = 0, apart = 0;
    for (const auto& [pair, both] : ends) {
      if (both.first.size() != both.second.size()) return false;
      for (size_t i = 0; i < both.first.size(); ++i) {
        const int32_t a = batches_[both.first[i]].step;
        const int32_t b = batches_[both.second[i]].step;
        known += a >= 0 && b >= 0;
        apart += a >= 0 && b >= 0 && a != b;
      }
    }
    if (2 * apart > known) return false;
    for (const auto& [pair, both] : ends) {
      for (size_t i = 0; i < both.first.size(); ++i)
        tied_[root_of(both.first[i])] = root_of(both.second[i]);
    }
    return true;
  }

  uint32_t root_of(uint32_t at) {
    while (tied_[at] != at) at = tied_[at] = tied_[tied_[at]];
    return at;
  }

  // Of a chain that comes back to a rank in a later kernel nothing says who
  // waits for whom.
  MessageExchanges exchanges() {
    std::map<uint32_t, std::vector<uint32_t>> of_root;
    for (uint32_t at = 0; at < batches_.size(); ++at)
      of_root[root_of(at)].push_back(at);
    MessageExchanges found;
    for (const auto& [root, members] : of_root) {
      MessageExchange one;
      RankGroup own;
      for (const uint32_t at : members) {
        const Batch& batch = batches_[at];
        one.members.push_back(batch.call);
        own.push_back(batch.rank);
        for (const RankGroup* peers : {&batch.peers.to, &batch.peers.from})
          one.ranks.insert(one.ranks.end(), peers->begin(), peers->end());
      }
      const bool twice =
          std::adjacent_find(own.begin(), own.end()) != own.end();
      if (twice || unmatched_.contains(members.front())) {
        found.unmatched += static_cast<int64_t>(members.size());
        continue;
      }
      one.ranks.insert(one.ranks.end(), own.begin(), own.end());
      std::sort(one.ranks.begin(), one.ranks.end());
      one.ranks.erase(std::unique(one.ranks.begin(), one.ranks.end()),
                      one.ranks.end());
      found.exchanges.push_back(std::move(one));
    }
    return found;
  }

  std::vector<Batch> batches_;  // By rank and order.
  std::vector<uint32_t> tied_;  // [batch] Another that it is tied to.
  std::set<uint32_t> recorded_;
  std::set<uint32_t> unmatched_;
};

}  // namespace

std::optional<MessageExchanges> match_exchanges(
    std::span<const uint32_t> batches, const CollectiveCalls& calls) {
  std::vector<Batch> known;
  bool has_several = false;
  for (const uint32_t i : batches) {
    const CollectiveCall& call = calls.calls[i];
    auto peers = peers_of(call, calls);
    if (!peers) return std::nullopt;
    has_several |= call.exchange >= 0;
    known.push_back({i, call.rank, call.step, std::move(*peers)});
  }
  if (!has_several) return std::nullopt;
  MessageExchanges found = ExchangeMatcher(std::move(known)).match();
  if (found.exchanges.empty()) return std::nullopt;
  return found;
}

std::vector<RankGroup> senders_of(std::span<const uint32_t> members,
                                  const CollectiveCalls& calls) {
  std::vector<RankGroup> senders;
  RankGroup here;
  for (const uint32_t i : members) here.push_back(calls.calls[i].rank);
  const auto is_here = [&](uint32_t rank) {
    return std::binary_search(here.begin(), here.end(), rank);
  };
  std::set<std::pair<uint32_t, uint32_t>> sent, awaited;  // From, to.
  for (const uint32_t i : members) {
    const CollectiveCall& call = calls.calls[i];
    auto peers = peers_of(call, calls);
    if (!peers) return {};
    for (const uint32_t rank : peers->to) {
      if (is_here(rank)) sent.emplace(call.rank, rank);
    }
    for (const uint32_t rank : peers->from) {
      if (is_here(rank)) awaited.emplace(rank, call.rank);
    }
    senders.push_back(std::move(peers->from));
  }
  if (sent != awaited) return {};
  return senders;
}

}  // namespace reprise
