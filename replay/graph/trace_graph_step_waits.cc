// Hosts that wait for a step's results without a call of CUDA's, as JAX by a
// callback of the host, leave a gap alone in the trace. Where steps are marked,
// the mark's end is the wait's.
#include <algorithm>
#include <iterator>

#include "replay/graph/trace_graph_draft.h"

namespace reprise {
namespace {

// A thread that did nothing until a step's end waited for the device if its
// last work of the step ended within this part of that time.
constexpr int64_t kLeastPartsWaited = 10;

// The rank's device work that ended last by a time; kNoNode: none had.
uint32_t last_done_by(const GraphDraft& draft, const RankDraft& rank,
                      int64_t time_ns) {
  uint32_t last = kNoNode;
  for (const StreamNodes& stream : rank.streams) {
    const auto first = draft.nodes.begin() + stream.first;
    const auto later = std::partition_point(
        first, draft.nodes.begin() + stream.last,
        [&](const DraftNode& node) { return node.start_ns <= time_ns; });
    const auto least = later - std::min<int64_t>(later - first, kSearchDepth);
    for (auto node = later; node != least;) {
      --node;
      if (node->end_ns > time_ns) continue;
      if (last == kNoNode || node->end_ns > draft.nodes[last].end_ns)
        last = static_cast<uint32_t>(node - draft.nodes.begin());
      break;
    }
  }
  return last;
}

// The first node of a thread after a step in whose end the thread had done
// nothing from before `done_ns`, by which the device was done; or kNoNode.
uint32_t first_after_wait(const GraphDraft& draft, const StreamNodes& thread,
                          const TimedGraph::Span& step, int64_t done_ns) {
  const auto first = draft.nodes.begin() + thread.first;
  const auto last = draft.nodes.begin() + thread.last;
  const auto next = std::partition_point(first, last, [&](const auto& node) {
    return node.start_ns < step.end_ns;
  });
  if (next == last) return kNoNode;
  const int64_t idle_from_ns =
      next == first ? step.start_ns
                    : std::max(std::prev(next)->end_ns, step.start_ns);
  const int64_t idle_ns = step.end_ns - idle_from_ns;
  if (idle_ns < kNoticeable || done_ns <= idle_from_ns ||
      step.end_ns - done_ns > idle_ns / kLeastPartsWaited) {
    return kNoNode;
  }
  return static_cast<uint32_t>(next - draft.nodes.begin());
}

}  // namespace

void add_step_waits(GraphDraft& draft, uint32_t rank) {
  const RankDraft& window = draft.ranks[rank];
  for (const TimedGraph::Span& step : draft.steps) {
    if (step.rank != rank) continue;
    const uint32_t done = last_done_by(draft, window, step.end_ns);
    if (done == kNoNode) continue;
    for (const StreamNodes& thread : window.threads) {
      const uint32_t node =
          first_after_wait(draft, thread, step, draft.nodes[done].end_ns);
      if (node != kNoNode)
        draft.add_edge(done, node, EdgeKind::kSynchronization);
    }
  }
}

}  // namespace reprise
