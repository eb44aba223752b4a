// What collectives on streams of their own wait for where no wait was recorded:
// profilers of XLA and old ones of PyTorch leave those calls out. A collective
// sends what was computed before, so both make its stream wait for all that the
// other was given until then. Whether the step was so shows in the times: none
// then begins before that is done. Where one does, nothing is assumed.
// Source: ProcessGroupNCCL::collective (syncStream), XLA's
// AsyncStartThunk (Stream::WaitFor).
#include <algorithm>
#include <vector>

#include "replay/graph/trace_graph_draft.h"

namespace reprise {
namespace {

/// A device node, by the thread that launched it and when.
struct Launched {
  uint32_t thread = 0;
  int64_t issued_ns = 0;
  uint32_t node = 0;

  auto operator<=>(const Launched&) const = default;
};

std::vector<Launched> launches_of(const GraphDraft& draft, uint32_t rank) {
  std::vector<Launched> launches;
  for (const StreamNodes& stream : draft.ranks[rank].streams) {
    for (uint32_t node = stream.first; node < stream.last; ++node) {
      const DraftNode& work = draft.nodes[node];
      if (work.launch == kNoNode) continue;
      const uint32_t call = draft.nodes[work.launch].event;
      launches.push_back(
          {draft.trace.events[call].stream, work.issued_ns, node});
    }
  }
  std::sort(launches.begin(), launches.end());
  return launches;
}

uint32_t stream_of(const GraphDraft& draft, const Launched& work) {
  return draft.trace.events[draft.nodes[work.node].event].stream;
}

/// From the work that a thread launched last before a collective, where that is
/// on another stream; one each.
std::vector<DraftEdge> producers(const GraphDraft& draft,
                                 const std::vector<Launched>& launches) {
  std::vector<DraftEdge> edges;
  const Launched* before = nullptr;
  for (const Launched& work : launches) {
    const DraftNode& node = draft.nodes[work.node];
    if (node.collective < 0) {
      before = &work;
    } else if (before != nullptr && before->thread == work.thread &&
               before->issued_ns < work.issued_ns &&
               stream_of(draft, *before) != stream_of(draft, work)) {
      edges.push_back(
          {.from = before->node, .to = work.node, .kind = EdgeKind::kInferred});
    }
  }
  return edges;
}

}  // namespace

void add_producer_waits(GraphDraft& draft, uint32_t rank) {
  std::vector<DraftEdge> edges = producers(draft, launches_of(draft, rank));
  const bool contradicted =
      std::any_of(edges.begin(), edges.end(), [&](const DraftEdge& edge) {
        return draft.nodes[edge.from].end_ns >
               draft.nodes[edge.to].start_ns + kClockTolerance;
      });
  if (contradicted) return;
  for (DraftEdge& edge : edges) {
    const int64_t lag_ns =
        draft.nodes[edge.to].start_ns - draft.nodes[edge.from].end_ns;
    edge.delay_ns = lag_ns <= kAssumedWaitLatency ? lag_ns : 0;
    draft.edges.push_back(edge);
  }
  draft.tally.producer_waits += static_cast<int64_t>(edges.size());
}

}  // namespace reprise
