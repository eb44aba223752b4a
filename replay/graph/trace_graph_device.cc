// Device work of an imported trace: launches by correlation, and the order of
// each stream.
#include <algorithm>
#include <span>
#include <vector>

#include "data/median.h"
#include "replay/graph/trace_graph_draft.h"

namespace reprise {
namespace {

// Delays up to this many times the typical one are explained by it.
constexpr int64_t kTypicalSpread = 3;
// An overlapping node's order is sought among so many before it.
constexpr uint32_t kOverlapDepth = 16;
// Work that begins so soon after other work of its stream was handed over by
// then: graph launches and dispatch take less.
constexpr int64_t kQueued = 50'000;
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

// When a rank's streams ended something.
class StreamEnds {
 public:
  StreamEnds(const GraphDraft& draft, const std::vector<StreamNodes>& streams) {
    if (streams.size() < 2) return;
    for (const StreamNodes& stream : streams) {
      for (uint32_t node = stream.first; node < stream.last; ++node)
        ends_.emplace_back(draft.nodes[node].end_ns, stream.stream);
    }
    std::sort(ends_.begin(), ends_.end());
  }

  // Whether another stream ended work just before: what begins then may have
  // waited for it.
  bool ended_elsewhere(int64_t start_ns, uint32_t stream) const {
    const auto first = std::lower_bound(
        ends_.begin(), ends_.end(), std::pair(start_ns - kAtOnce, uint32_t{0}));
    for (auto end = first; end != ends_.end() && end->first <= start_ns; ++end)
      if (end->second != stream) return true;
    return false;
  }

 private:
  static constexpr int64_t kAtOnce = 10'000;
  std::vector<std::pair<int64_t, uint32_t>> ends_;  // And their streams.
};

// Samples of a delay. Those that may be waits for other streams count only
// where there are no others, and then the shortest does, but for no more than
// handing over alone is assumed to take.
struct Delays {
  int64_t longest_unsure_ns = 50'000;
  std::vector<int64_t> sure = {};
  int64_t least_ns = kLatest;

  void add(int64_t delay_ns, bool may_wait) {
    if (may_wait) {
      least_ns = std::min(least_ns, delay_ns);
    } else {
      sure.push_back(delay_ns);
    }
  }
  bool empty() const { return sure.empty() && least_ns == kLatest; }
  int64_t typical_ns() && {
    if (sure.empty())
      return empty() ? 0 : std::min(least_ns, longest_unsure_ns);
    return median(std::move(sure));
  }
};

struct Typical {
  Delays launch;
  /// From work to queued work: what takes longer waits for something.
  Delays dispatch = {.longest_unsure_ns = kNoticeable};
  /// Of collectives, which begin late because they wait for what they send:
  /// typical only where nothing else was launched.
  Delays collective_launch;
};

void sample_delays(GraphDraft& draft, const StreamNodes& stream,
                   const StreamEnds& ends, Typical& typical) {
  const StreamWalk order(draft, stream);
  for (uint32_t node = stream.first; node < stream.last; ++node) {
    const DraftNode& work = draft.nodes[node];
    if (work.launch == kNoNode || order.overlaps(node)) continue;
    const uint32_t before = order.ended_before(node);
    const int64_t latency_ns = work.start_ns - work.issued_ns;
    const bool may_wait = ends.ended_elsewhere(work.start_ns, stream.stream);
    if (order.idle_at_launch(node, before)) {
      if (latency_ns < 0) continue;
      (work.collective < 0 ? typical.launch : typical.collective_launch)
          .add(latency_ns, may_wait);
    } else if (latency_ns > kTypicalSpread * kClockTolerance) {
      typical.dispatch.add(work.start_ns - draft.nodes[before].end_ns,
                           may_wait);
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

// A stream's work and when it was handed over, as far as that tells its step:
// its call's start; of work whose call was not recorded as late as that of what
// the stream did just before it, else its own start. Where the device's own
// work is marked, its start.
struct IssuedWork {
  uint32_t event = 0;
  int64_t issued_ns = 0;
};
std::vector<IssuedWork> issued_work(const GraphDraft& draft, uint32_t stream) {
  std::vector<IssuedWork> work;
  int64_t busy_until_ns = -kLatest;
  bool known = false;  // The time before comes from a call.
  const bool by_start = draft.ranks[draft.place].marked_by_device;
  for (const uint32_t index : draft.events_of(stream)) {
    if (!is_busy(draft.trace.events[index])) continue;
    const uint32_t call = draft.launch_of[index];
    const Interval& time = draft.time[index];
    known &= time.start_ns - kQueued <= busy_until_ns;
    const int64_t issued_ns = by_start          ? time.start_ns
                              : call != kNoNode ? draft.time[call].start_ns
                              : known           ? work.back().issued_ns
                                                : time.start_ns;
    known |= call != kNoNode;
    work.push_back({index, issued_ns});
    busy_until_ns = std::max(busy_until_ns, time.end_ns);
  }
  return work;
}

// What was handed over before the window and ends in it, as the last of it.
void add_under_way(GraphDraft& draft, uint32_t stream,
                   const std::vector<IssuedWork>& work) {
  const uint32_t rank = draft.rank_place[stream];
  const int64_t start_ns = draft.ranks[rank].start_ns;
  uint32_t last = kNoNode;
  for (const auto& [index, issued_ns] : work) {
    if (issued_ns >= start_ns || draft.time[index].end_ns <= start_ns) continue;
    if (last == kNoNode || draft.time[index].end_ns > draft.time[last].end_ns)
      last = index;
  }
  if (last == kNoNode) return;
  draft.first_node[last] = draft.last_node[last] =
      static_cast<uint32_t>(draft.nodes.size());
  draft.nodes.push_back({.start_ns = start_ns,
                         .end_ns = draft.time[last].end_ns,
                         .event = last,
                         .rank = rank,
                         .cut = true,
                         .under_way = true});
}

// A stream's first work of the window waits for what any stream still had to
// do, as far as that had ended when it began.
void follow_under_way(GraphDraft& draft, const RankDraft& window) {
  std::vector<uint32_t> under_way;
  for (const StreamNodes& stream : window.streams) {
    if (draft.nodes[stream.first].under_way) under_way.push_back(stream.first);
  }
  for (const StreamNodes& stream : window.streams) {
    const uint32_t own = draft.nodes[stream.first].under_way ? 1 : 0;
    if (stream.size() == own) continue;
    const uint32_t node = stream.first + own;
    uint32_t last = kNoNode;
    for (const uint32_t one : under_way) {
      const int64_t end_ns = draft.nodes[one].end_ns;
      if (end_ns <= draft.nodes[node].start_ns &&
          (last == kNoNode || end_ns > draft.nodes[last].end_ns))
        last = one;
    }
    if (last != kNoNode && last != stream.first)
      draft.add_edge(last, node, EdgeKind::kInferred);
  }
}

}  // namespace

bool is_busy(const Event& event) {
  return event.kind == EventKind::kCompute ||
         event.kind == EventKind::kCollective ||
         event.kind == EventKind::kCopy || event.kind == EventKind::kMemset;
}

bool marked_by_device(const GraphDraft& draft) {
  constexpr size_t kEnough = 16;
  std::vector<const StepMark*> marks;
  const uint32_t rank = draft.trace.ranks[draft.place].rank;
  for (const StepMark& mark : draft.trace.steps) {
    if (mark.rank == rank && marks.size() < kEnough) marks.push_back(&mark);
  }
  std::vector<bool> begins(marks.size()), ends(marks.size());
  for (uint32_t index = draft.first; index < draft.last; ++index) {
    const Event& event = draft.trace.events[index];
    if (!is_busy(event) ||
        draft.trace.streams[event.stream].kind != StreamKind::kDeviceStream)
      continue;
    for (size_t at = 0; at < marks.size(); ++at) {
      if (event.start_ns == marks[at]->start_ns) begins[at] = true;
      if (event.end_ns == marks[at]->end_ns) ends[at] = true;
    }
  }
  size_t both = 0;
  for (size_t at = 0; at < marks.size(); ++at) both += begins[at] && ends[at];
  return both * 2 > marks.size();
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
  const std::vector<IssuedWork> work = issued_work(draft, stream);
  add_under_way(draft, stream, work);
  for (const auto& [index, issued_ns] : work) {
    if (issued_ns < window.start_ns || issued_ns >= window.end_ns) continue;
    DraftNode node = {.start_ns = draft.time[index].start_ns,
                      .end_ns = draft.time[index].end_ns,
                      .event = index,
                      .rank = rank,
                      .collective = draft.collective_of(index)};
    const uint32_t call = draft.launch_of[index];
    node.issued_ns =
        call == kNoNode ? node.start_ns : draft.time[call].start_ns;
    node.handed_ns = issued_ns;
    if (call != kNoNode) node.launch = draft.first_node[call];
    if (call == kNoNode) ++draft.tally.no_launch;
    draft.tally.whole_graphs += draft.trace.text(draft.trace.events[index].name)
                                    .starts_with(kWholeGraph);
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
  const StreamEnds ends(draft, window.streams);
  for (const StreamNodes& stream : window.streams) {
    sample_delays(draft, stream, ends, typical);
  }
  Delays& launch =
      typical.launch.empty() ? typical.collective_launch : typical.launch;
  window.launch_ns = std::move(launch).typical_ns();
  window.dispatch_ns = std::move(typical.dispatch).typical_ns();
  for (const StreamNodes& stream : window.streams) {
    order_stream(draft, stream, window);
  }
  follow_under_way(draft, window);
}

}  // namespace reprise
