// What of a collective's transfer is latency, and what waiting for ranks that
// were not recorded.
#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "replay/graph/trace_graph_draft.h"

namespace reprise {
namespace {

// A transfer of which only one size was seen is latency up to this. Source: the
// least all-to-all of a few KB over 8 V100 of one host in a public DLRM trace.
constexpr int64_t kAssumedLatency = 10'000;

using Kind = std::pair<CollectiveKind, size_t>;  // And group size.
using LeastBySize = std::map<int64_t, int64_t>;  // Bytes, least transfer.

Kind kind_of(const MatchedCollective& collective) {
  return {collective.kind,
          std::max(collective.group.size(), collective.members.size())};
}

// The intercept of a least-squares line, within 0 and the least transfer.
int64_t latency_of(const LeastBySize& least) {
  int64_t lowest_ns = kLongest;
  double bytes = 0, time_ns = 0;
  const double count = static_cast<double>(least.size());
  for (const auto& [size, transfer_ns] : least) {
    lowest_ns = std::min(lowest_ns, transfer_ns);
    bytes += static_cast<double>(size) / count;
    time_ns += static_cast<double>(transfer_ns) / count;
  }
  if (least.size() < 2) return std::min(lowest_ns, kAssumedLatency);
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

}  // namespace

void price_transfers(const CollectiveMatching& matching, TimedGraph& graph) {
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
  std::map<Kind, int64_t> latency;
  for (const auto& [kind, of_kind] : least) latency[kind] = latency_of(of_kind);
  graph.transfers.assign(collectives.size(), {});
  for (size_t at = 0; at < collectives.size(); ++at) {
    if (transfer_ns[at] < 0) continue;
    const Kind kind = kind_of(collectives[at]);
    TimedGraph::Transfer& transfer = graph.transfers[at];
    if (!collectives[at].missing.empty()) {
      transfer.absent_ns = transfer_ns[at] - least[kind][collectives[at].bytes];
    }
    transfer.latency_ns =
        std::min(latency[kind], transfer_ns[at] - transfer.absent_ns);
  }
}

}  // namespace reprise
