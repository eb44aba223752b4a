// Waits that nothing recorded tells but their time: work that begins just when
// another stream's ended.
#include <algorithm>
#include <utility>
#include <vector>

#include "replay/graph/trace_graph_draft.h"

namespace reprise {
namespace {

using End = std::pair<int64_t, uint32_t>;  // When its work ended; node.

// [node] Whether a dependency on other than a host thread was recorded: what
// else it waits for would have been, too.
std::vector<bool> told_by_dependencies(const GraphDraft& draft) {
  std::vector<bool> told(draft.nodes.size(), false);
  for (const DraftEdge& edge : draft.edges) {
    if (edge.kind != EdgeKind::kDependency) continue;
    const Event& event = draft.trace.events[draft.nodes[edge.from].event];
    if (draft.trace.streams[event.stream].kind != StreamKind::kHostThread)
      told[edge.to] = true;
  }
  return told;
}

// End and node of all that streams did, the earliest first.
std::vector<End> ends_of_nodes(const GraphDraft& draft,
                               const RankDraft& window) {
  std::vector<End> ends;
  for (const StreamNodes& stream : window.streams) {
    for (uint32_t node = stream.first; node < stream.last; ++node)
      ends.emplace_back(draft.nodes[node].end_ns, node);
  }
  std::sort(ends.begin(), ends.end());
  return ends;
}

// Whether the one may have been issued before the other: by an earlier call, or
// by the same one, as all work of a CUDA graph is.
bool may_precede(const DraftNode& source, const DraftNode& work) {
  if (source.issued_ns != work.issued_ns)
    return source.issued_ns < work.issued_ns;
  return source.launch != kNoNode && source.launch == work.launch &&
         source.start_ns < work.start_ns;
}

}  // namespace

void add_coincident_waits(GraphDraft& draft, uint32_t rank,
                          std::span<const int64_t> ready_ns) {
  const RankDraft& window = draft.ranks[rank];
  if (window.streams.size() < 2) return;
  const int64_t latency_ns =
      window.wait_latency_ns.value_or(kAssumedWaitLatency);
  const std::vector<End> ends = ends_of_nodes(draft, window);
  const std::vector<bool> told = told_by_dependencies(draft);
  for (const StreamNodes& stream : window.streams) {
    for (uint32_t node = stream.first; node < stream.last; ++node) {
      const DraftNode& work = draft.nodes[node];
      if (told[node]) continue;
      if (work.start_ns - ready_ns[node] <= kNoticeable) continue;
      auto at = std::upper_bound(ends.begin(), ends.end(),
                                 End{work.start_ns, kNoNode});
      while (at != ends.begin()) {
        --at;
        if (at->first < work.start_ns - latency_ns) break;
        const DraftNode& source = draft.nodes[at->second];
        const bool other =
            at->second < stream.first || at->second >= stream.last;
        if (!other || !may_precede(source, work)) continue;
        draft.add_edge(at->second, node, EdgeKind::kInferred,
                       work.start_ns - source.end_ns);
        draft.tally.assumed_waits += !window.wait_latency_ns.has_value();
        break;
      }
    }
  }
}

}  // namespace reprise
