// Tells exchanges of messages (rings of attention, halos) from pipelines.
#include <algorithm>
#include <limits>
#include <vector>

#include "replay/findings/finding_kinds.h"

namespace reprise {

bool is_exchange(const FindingInput& input) {
  constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
  const TimedGraph& graph = input.graph;
  std::vector<int64_t> received_ns(graph.ranks.size(), kNever);
  std::vector<int64_t> sent_ns(graph.ranks.size(), kNever);
  bool told = false;
  for (uint32_t node = 0; node < graph.size(); ++node) {
    if (graph.collective[node] < 0) continue;
    const MatchedCollective& message =
        input.analysis.matching
            .collectives[static_cast<size_t>(graph.collective[node])];
    if (message.kind != CollectiveKind::kSend || message.sender < 0 ||
        message.both_ways || message.members.size() < 2)
      continue;
    told = true;
    const uint32_t rank = graph.rank[node];
    if (static_cast<int64_t>(input.rank_number(node)) == message.sender) {
      sent_ns[rank] = std::min(sent_ns[rank], input.times.start_ns[node]);
    } else {
      received_ns[rank] = std::min(received_ns[rank], input.times.end_ns[node]);
    }
  }
  bool stage = false;
  for (size_t rank = 0; rank < sent_ns.size(); ++rank)
    stage |= received_ns[rank] != kNever && received_ns[rank] <= sent_ns[rank];
  return told && !stage;
}

}  // namespace reprise
