#include "replay/simulate/merge_collectives.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace reprise {
namespace {

// [collective] Its nodes, by rank.
std::vector<std::vector<uint32_t>> nodes_of_collectives(
    const TimedGraph& graph) {
  std::vector<std::vector<uint32_t>> nodes(graph.transfers.size());
  for (uint32_t node = 0; node < graph.size(); ++node) {
    const int32_t place = graph.collective[node];
    if (place >= 0) nodes[static_cast<size_t>(place)].push_back(node);
  }
  for (auto& members : nodes) {
    std::sort(members.begin(), members.end(), [&](uint32_t a, uint32_t b) {
      return std::pair(uint32_t{graph.rank[a]}, a) <
             std::pair(uint32_t{graph.rank[b]}, b);
    });
  }
  return nodes;
}

bool same_ranks(const std::vector<uint32_t>& a, const std::vector<uint32_t>& b,
                const TimedGraph& graph) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](uint32_t left, uint32_t right) {
                      return uint32_t{graph.rank[left]} ==
                             uint32_t{graph.rank[right]};
                    });
}

}  // namespace

CollectiveGroups mergeable(std::span<const uint32_t> order, int64_t wire_ns,
                           const TimedGraph& graph) {
  const auto nodes = nodes_of_collectives(graph);
  constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();
  std::vector<int32_t> turn(graph.transfers.size(), -1);
  for (size_t at = 0; at < order.size(); ++at) {
    turn[order[at]] = static_cast<int32_t>(at);
  }
  // [collective] The first node that waits for it, but its successors here.
  std::vector<uint32_t> needed(graph.transfers.size(), kNone);
  for (uint32_t node = 0; node < graph.size(); ++node) {
    const int32_t own = graph.collective[node];
    if (own >= 0 && turn[static_cast<size_t>(own)] >= 0) continue;
    for (uint32_t at = graph.first[node]; at < graph.first[node + 1]; ++at) {
      const int32_t place = graph.collective[graph.edges[at].from];
      if (place < 0) continue;
      uint32_t& first = needed[static_cast<size_t>(place)];
      first = std::min(first, node);
    }
  }
  CollectiveGroups groups;
  uint32_t bound = kNone;  // Of the open group.
  int64_t sum_ns = 0;
  for (const uint32_t place : order) {
    const auto& members = nodes[place];
    if (members.empty()) continue;
    const int64_t own_ns =
        std::max<int64_t>(0, std::as_const(graph).duration[members[0]] -
                                 graph.transfers[place].latency_ns);
    const uint32_t last = *std::max_element(members.begin(), members.end());
    const bool joins = !groups.empty() && sum_ns < wire_ns && last < bound &&
                       same_ranks(members, nodes[groups.back().back()], graph);
    if (!joins) {
      groups.emplace_back();
      bound = kNone;
      sum_ns = 0;
    }
    groups.back().push_back(place);
    bound = std::min(bound, needed[place]);
    sum_ns += own_ns;
  }
  std::erase_if(groups, [](const auto& group) { return group.size() < 2; });
  return groups;
}

void merge_collectives(const CollectiveGroups& groups, TimedGraph& graph) {
  const auto nodes = nodes_of_collectives(graph);
  std::vector<uint32_t> moved(graph.size());  // [node] Who stands for it.
  for (uint32_t node = 0; node < graph.size(); ++node) moved[node] = node;
  for (const std::vector<uint32_t>& group : groups) {
    const auto& last = nodes[group.back()];
    for (size_t member = 0; member < last.size(); ++member) {
      int64_t latency_ns = 0, wire_ns = 0;
      for (const uint32_t place : group) {
        const uint32_t node = nodes[place][member];
        const int64_t own_ns = std::min<int64_t>(
            graph.transfers[place].latency_ns, graph.duration[node]);
        latency_ns = std::max(latency_ns, own_ns);
        wire_ns += graph.duration[node] - own_ns;
        moved[node] = last[member];
        graph.duration[node] = 0;
      }
      graph.duration[last[member]] = latency_ns + wire_ns;
    }
  }
  for (uint32_t node = 0; node < graph.size(); ++node) {
    for (uint32_t at = graph.first[node]; at < graph.first[node + 1]; ++at) {
      TimedGraph::Edge edge = graph.edges[at];
      if (moved[edge.from] == edge.from || moved[edge.from] >= node) continue;
      edge.from = moved[edge.from];
      graph.edges.set(at, edge);
    }
  }
}

}  // namespace reprise
