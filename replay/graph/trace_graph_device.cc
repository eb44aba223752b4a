// Device work of an imported trace: launches by correlation, and the order of
// each stream.
#include <algorithm>
#include <span>

#include "data/median.h"
#include "replay/graph/trace_graph_draft.h"

namespace reprise {
namespace {

// Delays up to this many times the typical one are explained by it.
constexpr int64_t kTypicalSpread = 3;
// An overlapping node's order is sought among so many before it.
constexpr uint32_t kOverlapDepth = 16;
// A launch recorded so long after its work began belongs to something else.
constexpr int64_t kWorstLaunchError = 1'000'000;

static_assert(CallIndex::kNoCall == kNoNode);

bool may_have_call(const Trace& trace, const Event& event) {
  if (event.correlation < 0) return false;
  if (event.kind == EventKind::kSynchronization) return true;
  return is_busy(event) &&
         trace.streams[event.stream].kind == StreamKind::kDeviceStream;
}

// How the nodes of a stream follow each other.
class StreamWalk {
 public:
  StreamWalk(GraphDraft& draft, const StreamNodes& stream)
      : draft_(draft), stream_(stream) {}

  // The node before `node` that had ended when it began; kNoNode: none near.
  uint32_t ended_before(uint32_t node) const {
    const uint32_t nearest = std::min(node - stream_.first, kOverlapDepth);
    uint32_t best = kNoNode;
    for (uint32_t back = 1; back <= nearest; ++back) {
      const DraftNode& before = draft_.nodes[node - back];
      if (before.end_ns > draft_.nodes[node].start_ns) continue;
      if (best == kNoNode || before.end_ns > draft_.nodes[best].end_ns) {
        best = node - back;
      }
    }
    return best;
  }

  // Whether the stream had nothing to do when the node's launch was called.
  bool idle_at_launch(uint32_t node, uint32_t before) const {
    return before == kNoNode ||
           draft_.nodes[before].end_ns <= draft_.nodes[node].issued_ns;
  }

  bool overlaps(uint32_t node) const {
    return node > stream_.first &&
           draft_.nodes[node - 1].end_ns > draft_.nodes[node].start_ns;
  }

 private:
  GraphDraft& draft_;
  const StreamNodes& stream_;
};

struct Typical {
  std::vector<int64_t> launch, dispatch;
  /// Of collectives, which begin late because they wait for what they send:
  /// typical only where nothing else was launched.
  std::vector<int64_t> collective_launch;
};

void sample_delays(GraphDraft& draft, const StreamNodes& stream,
                   Typical& typical) {
  const StreamWalk order(draft, stream);
  for (uint32_t node = stream.first; node < stream.last; ++node) {
    const DraftNode& work = draft.nodes[node];
    if (work.launch == kNoNode || order.overlaps(node)) continue;
    const uint32_t before = order.ended_before(node);
    const int64_t latency_ns = work.start_ns - work.issued_ns;
    if (order.idle_at_launch(node, before)) {
      if (latency_ns < 0) continue;
      (work.collective < 0 ? typical.launch : typical.collective_launch)
          .push_back(latency_ns);
    } else if (latency_ns > kTypicalSpread * kClockTolerance) {
      typical.dispatch.push_back(work.start_ns - draft.nodes[before].end_ns);
    }
  }
}

int64_t explained(int64_t delay_ns, int64_t typical_ns) {
  // Up to kTypicalSpread times as long; times of broken traces are too long to
  // be multiplied.
  const int64_t share_ns = (delay_ns + kTypicalSpread - 1) / kTypicalSpread;
  return share_ns <= typical_ns ? delay_ns : typical_ns;
}

void add_launch_edge(GraphDraft& draft, uint32_t node, bool idle,
                     int64_t typical_ns) {
  const DraftNode& work = draft.nodes[node];
  const int64_t latency_ns = work.start_ns - work.issued_ns;
  if (latency_ns < -kWorstLaunchError) {
    ++draft.tally.bad_launch;
    return;
  }
  const int64_t delay_ns = idle ? explained(latency_ns, typical_ns)
                                : std::min(latency_ns, typical_ns);
  draft.add_edge(work.launch, node, EdgeKind::kLaunch, delay_ns, true);
}

void order_stream(GraphDraft& draft, const StreamNodes& stream,
                  const RankDraft& rank) {
  const StreamWalk order(draft, stream);
  for (uint32_t node = stream.first; node < stream.last; ++node) {
    const DraftNode& work = draft.nodes[node];
    const uint32_t before = order.ended_before(node);
    if (work.launch != kNoNode) {
      add_launch_edge(draft, node, order.idle_at_launch(node, before),
                      rank.launch_ns);
    }
    if (before != kNoNode) {
      const int64_t gap_ns = work.start_ns - draft.nodes[before].end_ns;
      draft.add_edge(before, node, EdgeKind::kStream,
                     explained(gap_ns, rank.dispatch_ns));
    }
    if (order.overlaps(node)) {
      ++draft.tally.overlaps;
      draft.add_edge(node - 1, node, EdgeKind::kStream,
                     work.start_ns - draft.nodes[node - 1].start_ns, true);
    }
  }
}

}  // namespace

bool is_busy(const Event& event) {
  return event.kind == EventKind::kCompute ||
         event.kind == EventKind::kCollective ||
         event.kind == EventKind::kCopy || event.kind == EventKind::kMemset;
}

void find_launches(GraphDraft& draft) {
  const Trace& trace = draft.trace;
  CallIndex& calls = draft.ranks[draft.place].calls;
  calls = CallIndex(
      std::span(trace.events).subspan(draft.first, draft.last - draft.first),
      draft.first);
  if (calls.empty()) return;
  for (uint32_t index = draft.first; index < draft.last; ++index) {
    const Event& event = trace.events[index];
    if (!may_have_call(trace, event)) continue;
    const uint32_t call = calls.of(event.correlation);
    draft.launch_of[index] = call;
    if (call == kNoNode || !is_busy(event)) continue;
    uint32_t& child = draft.child_of[call];
    if (child == kNoNode || trace.events[child].end_ns <= event.end_ns) {
      child = index;
    }
  }
}

void add_device_stream(GraphDraft& draft, uint32_t stream) {
  const uint32_t rank = draft.rank_place[stream];
  RankDraft& window = draft.ranks[rank];
  const uint32_t first = static_cast<uint32_t>(draft.nodes.size());
  for (const uint32_t index : draft.events_of(stream)) {
    const Event& event = draft.trace.events[index];
    if (!is_busy(event)) continue;
    DraftNode node = {.start_ns = draft.time[index].start_ns,
                      .end_ns = draft.time[index].end_ns,
                      .event = index,
                      .rank = rank,
                      .collective = draft.collective_of(index)};
    const uint32_t call = draft.launch_of[index];
    node.issued_ns =
        call == kNoNode ? node.start_ns : draft.time[call].start_ns;
    const bool under_way =
        node.issued_ns < window.start_ns && node.end_ns > window.start_ns;
    const bool issued =
        node.issued_ns >= window.start_ns && node.issued_ns < window.end_ns;
    if (!issued && !under_way) continue;
    if (call != kNoNode) node.launch = draft.first_node[call];
    if (call == kNoNode) ++draft.tally.no_launch;
    node.cut = node.start_ns < window.start_ns;
    node.start_ns = std::max(node.start_ns, window.start_ns);
    const uint32_t place = static_cast<uint32_t>(draft.nodes.size());
    draft.first_node[index] = draft.last_node[index] = place;
    draft.nodes.push_back(node);
  }
  const uint32_t last = static_cast<uint32_t>(draft.nodes.size());
  if (last > first) window.streams.push_back({stream, first, last});
}

void add_device_order(GraphDraft& draft, uint32_t rank) {
  Typical typical;
  RankDraft& window = draft.ranks[rank];
  for (const StreamNodes& stream : window.streams) {
    sample_delays(draft, stream, typical);
  }
  window.launch_ns = median(std::move(
      typical.launch.empty() ? typical.collective_launch : typical.launch));
  window.dispatch_ns = median(typical.dispatch);
  for (const StreamNodes& stream : window.streams) {
    order_stream(draft, stream, window);
  }
}

}  // namespace reprise
