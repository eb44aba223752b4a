// Tells exchanges of messages (rings of attention, halos) from pipelines.
#include <algorithm>
#include <limits>
#include <vector>

#include "replay/findings/finding_kinds.h"

namespace reprise {
namespace {

struct Role {
  bool sends = false, receives = false;
};

/// What a member does of messages that tell it; of others nothing.
Role role_of(const CollectiveMatching& matching,
             const MatchedCollective& message, uint32_t rank) {
  if (message.members.size() < 2) return {};
  if (message.exchange < 0) {
    if (message.kind != CollectiveKind::kSend || message.sender < 0 ||
        message.both_ways)
      return {};
    const bool sends = static_cast<int64_t>(rank) == message.sender;
    return {.sends = sends, .receives = !sends};
  }
  Role role;
  const std::vector<RankGroup>& senders =
      matching.exchanges[static_cast<size_t>(message.exchange)];
  for (size_t i = 0; i < senders.size(); ++i) {
    role.sends |=
        std::binary_search(senders[i].begin(), senders[i].end(), rank);
    role.receives |= message.members[i].rank == rank && !senders[i].empty();
  }
  return role;
}

}  // namespace

bool is_exchange(const FindingInput& input) {
  constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
  const TimedGraph& graph = input.graph;
  const CollectiveMatching& matching = input.analysis.matching;
  std::vector<int64_t> received_ns(graph.ranks.size(), kNever);
  std::vector<int64_t> sent_ns(graph.ranks.size(), kNever);
  bool told = false;
  for (uint32_t node = 0; node < graph.size(); ++node) {
    if (graph.collective[node] < 0) continue;
    const MatchedCollective& message =
        matching.collectives[static_cast<size_t>(graph.collective[node])];
    if (FindingInput::meets_server(message)) return true;
    const Role role = role_of(matching, message, input.rank_number(node));
    told |= role.sends || role.receives;
    int64_t& sent = sent_ns[graph.rank[node]];
    int64_t& received = received_ns[graph.rank[node]];
    if (role.sends) sent = std::min(sent, input.times.start_ns[node]);
    if (role.receives) received = std::min(received, input.times.end_ns[node]);
  }
  bool stage = false;
  for (size_t rank = 0; rank < sent_ns.size(); ++rank)
    stage |= received_ns[rank] != kNever && received_ns[rank] <= sent_ns[rank];
  return told && !stage;
}

}  // namespace reprise
