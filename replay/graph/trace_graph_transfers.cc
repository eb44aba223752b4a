// What of a collective's transfer is latency, and what waiting for ranks that
// were not recorded.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "replay/graph/trace_graph_draft.h"

namespace reprise {
namespace {

using Kind = std::pair<CollectiveKind, size_t>;  // And group size.
using LeastBySize = std::map<int64_t, int64_t>;  // Bytes, least transfer.

Kind kind_of(const MatchedCollective& collective) {
  return {collective.kind,
          std::max(collective.group.size(), collective.members.size())};
}

// Messages one after the other, round a ring.
int64_t hops_of(const Kind& kind) {
  const auto hops = static_cast<int64_t>(std::max<size_t>(kind.second, 1)) - 1;
  if (is_message(kind.first)) return std::min<int64_t>(hops, 1);
  return (kind.first == CollectiveKind::kAllReduce ? 2 : 1) * hops;
}

// Of a transfer of which only one size was seen, where no other operation of as
// many ranks tells: a ring in one host.
int64_t assumed_latency(const Kind& kind) {
  return kCallLatency_ns + hops_of(kind) * kHopLatency_ns;
}

// What another operation's of as many ranks tells of it. A message is one hop
// of those that a collective has behind its call; collectives are alike.
int64_t borrowed_latency(const Kind& kind, const Kind& other,
                         int64_t other_ns) {
  if (!is_message(kind.first) || is_message(other.first)) return other_ns;
  const int64_t hops_ns = std::max<int64_t>(0, other_ns - kCallLatency_ns);
  return other_ns - hops_ns + hops_ns / std::max<int64_t>(1, hops_of(other));
}

// The intercept of a least-squares line, within 0 and the least transfer.
// Requires: two sizes.
int64_t latency_of(const LeastBySize& least) {
  int64_t lowest_ns = kLongest;
  double bytes = 0, time_ns = 0;
  const double count = static_cast<double>(least.size());
  for (const auto& [size, transfer_ns] : least) {
    lowest_ns = std::min(lowest_ns, transfer_ns);
    bytes += static_cast<double>(size) / count;
    time_ns += static_cast<double>(transfer_ns) / count;
  }
  double both = 0, square = 0;
  for (const auto& [size, transfer_ns] : least) {
    const double off = static_cast<double>(size) - bytes;
    both += off * (static_cast<double>(transfer_ns) - time_ns);
    square += off * off;
  }
  const double slope = square > 0 ? std::max(0.0, both / square) : 0;
  const double intercept_ns = time_ns - slope * bytes;
  if (!(intercept_ns > 0)) return 0;
  return std::min(lowest_ns,
                  static_cast<int64_t>(std::min(intercept_ns, 1e18)));
}

struct Latency {
  int64_t time_ns = 0;
  bool is_assumed = false;
};

// Of every kind; how many were assumed, and how many are another operation's.
std::map<Kind, Latency> latencies_of(const std::map<Kind, LeastBySize>& least,
                                     int64_t& assumed, int64_t& borrowed) {
  std::map<Kind, Latency> latencies;
  // By group size: the least fitted.
  std::map<size_t, std::pair<int64_t, Kind>> of_group;
  for (const auto& [kind, of_kind] : least) {
    if (of_kind.size() < 2) continue;
    const int64_t latency_ns = latency_of(of_kind);
    latencies[kind] = {.time_ns = latency_ns};
    const std::pair<int64_t, Kind> own = {latency_ns, kind};
    const auto [known, added] = of_group.insert({kind.second, own});
    if (!added) known->second = std::min(known->second, own);
  }
  for (const auto& [kind, of_kind] : least) {
    if (of_kind.size() != 1) continue;
    const auto known = of_group.find(kind.second);
    const bool is_known = known != of_group.end();
    ++(is_known ? borrowed : assumed);
    latencies[kind] = {
        std::min(of_kind.begin()->second,
                 is_known ? borrowed_latency(kind, known->second.second,
                                             known->second.first)
                          : assumed_latency(kind)),
        !is_known};
  }
  return latencies;
}

/// How far the first two ranks of a group are apart that is known in full.
uint32_t apart(const MatchedCollective& collective) {
  const std::vector<uint32_t>& ranks = collective.group;
  const bool known = ranks.size() > 1 && static_cast<int64_t>(ranks.size()) ==
                                             collective.group_size;
  return known ? ranks[1] - ranks[0] : 0;
}

}  // namespace

void price_transfers(const CollectiveMatching& matching, bool by_ring,
                     TimedGraph& graph) {
  const auto& collectives = matching.collectives;
  std::vector<int64_t> transfer_ns(collectives.size(), -1);
  for (size_t node = 0; node < graph.size(); ++node) {
    if (graph.collective[node] < 0) continue;
    int64_t& longest = transfer_ns[static_cast<size_t>(graph.collective[node])];
    longest = std::max(longest, std::as_const(graph).duration[node]);
  }
  std::map<Kind, LeastBySize> least;
  for (size_t at = 0; at < collectives.size(); ++at) {
    if (transfer_ns[at] < 0) continue;
    LeastBySize& of_kind = least[kind_of(collectives[at])];
    const auto [known, added] =
        of_kind.insert({collectives[at].bytes, transfer_ns[at]});
    if (!added) known->second = std::min(known->second, transfer_ns[at]);
  }
  int64_t assumed = 0, borrowed = 0;
  const std::map<Kind, Latency> latency =
      latencies_of(least, assumed, borrowed);
  if (borrowed > 0) {
    graph.notes.push_back(fmt::format(
        "Kinds of collectives of which one size was seen: {}. What bandwidth "
        "does not shrink of them is another operation's of as many ranks.",
        borrowed));
  }
  if (assumed > 0) {
    graph.notes.push_back(fmt::format(
        "Kinds of collectives of which one size was seen: {}. What bandwidth "
        "does not shrink of them is assumed: {} us, and {} us a hop (NCCL's "
        "own model).",
        assumed, kCallLatency_ns / 1e3, kHopLatency_ns / 1e3));
  }
  graph.transfers.assign(collectives.size(), {});
  for (size_t at = 0; at < collectives.size(); ++at) {
    if (transfer_ns[at] < 0) continue;
    const Kind kind = kind_of(collectives[at]);
    TimedGraph::Transfer& transfer = graph.transfers[at];
    transfer.group = {
        .kind = kind.first,
        .ranks = static_cast<uint32_t>(std::max<int64_t>(
            collectives[at].group_size, static_cast<int64_t>(kind.second))),
        .on_device = collectives[at].on_device,
        .apart = apart(collectives[at]),
        .by_ring = by_ring};
    if (collectives[at].lacks_ranks()) {
      transfer.absent_ns = transfer_ns[at] - least[kind][collectives[at].bytes];
    }
    // What a barrier takes, no bandwidth shrinks.
    const int64_t own_ns = transfer_ns[at] - transfer.absent_ns;
    const bool moves_data = kind.first != CollectiveKind::kBarrier;
    transfer.latency_ns =
        moves_data ? std::min(latency.at(kind).time_ns, own_ns) : own_ns;
    transfer.is_assumed = latency.at(kind).is_assumed;
  }
}

}  // namespace reprise
