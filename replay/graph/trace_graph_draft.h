// A graph under construction. GraphDraft is one rank at a time: recorded nodes
// and edges in the order of finding them, each part of the builder adding its
// own kind. LooseGraph is all ranks that are done, in a few bytes a node and
// edge, until all is ordered and packed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/trace/call_index.h"
#include "data/trace/intervals.h"
#include "data/trace/trace_by_rank.h"
#include "replay/collectives/collectives.h"
#include "replay/graph/call_class.h"
#include "replay/graph/operator_waits.h"
#include "replay/graph/trace_graph.h"

namespace reprise {

/// The time, or the limit that it is beyond.
inline int64_t within(int64_t time_ns, int64_t limit) {
  return std::clamp(time_ns, -limit, limit);
}

constexpr uint32_t kNoNode = std::numeric_limits<uint32_t>::max();
/// Recorded times of host and device may disagree by this much: CUPTI maps
/// device clocks to within a few microseconds.
constexpr int64_t kClockTolerance = 5'000;
/// Waits are sought among so many streams and threads of a rank; no real one
/// has more, and a damaged file must not cost their square.
constexpr size_t kMostSearched = 256;
/// Times end here (the year 2096), delays and durations well before.
constexpr int64_t kLatest = 4'000'000'000'000'000'000;
constexpr int64_t kLongest = 1'000'000'000'000'000'000;

struct DraftNode {
  int64_t start_ns = 0;  ///< Recorded, on rank 0's clock; after any wait.
  int64_t end_ns = 0;
  uint32_t event = 0;
  uint32_t rank = 0;          ///< Place in Trace::ranks.
  int32_t collective = -1;    ///< Place in the matching.
  int32_t step = -1;          ///< Place in GraphDraft::steps.
  uint32_t launch = kNoNode;  ///< Device work: the host node that launched it.
  int64_t issued_ns = 0;  ///< Device work: start of that call, else its own.
  /// Device work: the time that tells its step; as IssuedWork.
  std::optional<int64_t> handed_ns = std::nullopt;
  int64_t named_ns = 0;    ///< Before it, within annotations but no op …
  uint32_t range = 0;      ///< … and the one of most of that, if any.
  int64_t beyond_ns = 0;   ///< As TimedGraph::beyond_ns.
  bool cut = false;        ///< Began before the window.
  bool under_way = false;  ///< TimedGraph::kUnderWay.
};

struct DraftEdge {
  int64_t delay_ns = 0;
  uint32_t from = 0, to = 0;
  EdgeKind kind = EdgeKind::kThread;
  bool from_start = false;
};

/// Nodes first..last (exclusive) of one stream, in order of start.
struct StreamNodes {
  uint32_t stream = 0, first = 0, last = 0;
  bool is_messages = false;  ///< Of a host thread, beside it; may overlap.
  uint32_t size() const { return last - first; }
};

/// Only gaps beyond this ask for an explanation.
constexpr int64_t kNoticeable = 5'000;
/// Streams hardly ever end in another order than they start; this far back.
constexpr int64_t kSearchDepth = 256;

/// A host call that waited for the device.
struct HostWait {
  uint32_t node = 0;      ///< The stretch after the wait.
  int64_t called_ns = 0;  ///< Start of the call.
  CallClass call = CallClass::kSyncDevice;
  uint32_t event = 0;
  uint32_t copy = kNoNode;  ///< Event of the copy that it waited for (kCopy).
};

/// A host call that makes a stream wait (kStreamWait), in order of thread.
struct StreamWaitCall {
  uint32_t event = 0, stream = 0;  ///< The call and its host thread.
  int64_t called_ns = 0;
  bool of_last = false;  ///< For an event that was recorded just before.
};

/// Gives a container's memory back, which `= {}` keeps.
template <typename Container>
void release(Container& container) {
  container = Container();
}

/// What one rank adds.
struct RankDraft {
  int64_t start_ns = std::numeric_limits<int64_t>::min();  ///< Of the window.
  int64_t end_ns = std::numeric_limits<int64_t>::max();
  bool timed = true;
  bool marked_by_device = false;
  /// An annotation from this width on does not explain its own time, unless it
  /// is one of data loading.
  int64_t widest_range_ns = std::numeric_limits<int64_t>::max();
  std::vector<uint32_t> recorded_streams;  ///< All of the rank's, by number.
  std::vector<StreamNodes> threads;        ///< Host threads.
  std::vector<StreamNodes> streams;        ///< Device streams.
  std::vector<StreamNodes> flat;  ///< Rows that only dependencies order.
  std::vector<HostWait> host_waits;
  std::vector<OperatorWait> operator_waits;  ///< By stream, then start.
  /// Nodes that begin when a wait is over, and OperatorWait::collective.
  std::vector<std::pair<uint32_t, uint32_t>> awaited;
  std::vector<StreamWaitCall> stream_waits;
  CallIndex calls;
  int64_t launch_ns = 0;    ///< Typical launch latency of an idle stream.
  int64_t dispatch_ns = 0;  ///< Typical gap between queued kernels.
  /// Work that begins within this time of another stream's may have waited for
  /// it; none: nothing recorded tells.
  std::optional<int64_t> wait_latency_ns;

  /// Frees what only finding its nodes and edges needed; `first` is added to
  /// the numbers of nodes in `flat`.
  void forget_events(uint32_t first);
};

struct GraphTally {
  int64_t untimed_ranks = 0, polls = 0, whole_graphs = 0;
  int64_t no_launch = 0, bad_launch = 0, dangling = 0, contradicted = 0;
  int64_t waits_without_source = 0, overlaps = 0, early_leavers = 0;
  int64_t assumed_waits = 0;   ///< Within kAssumedWaitLatency alone.
  int64_t producer_waits = 0;  ///< Of collectives, as add_producer_waits.
};

/// In whole sentences; `repaired` edges closed cycles.
std::vector<std::string> notes_of(const GraphTally& tally, int64_t repaired);

/// RankDraft::wait_latency_ns where too few waits were recorded to tell: what a
/// short kernel takes whose end the host awaits before the next launch, which a
/// stream's wait for another should not exceed. Source: "Getting Started with
/// CUDA Graphs", NVIDIA developer blog, 2019 (V100, a kernel of 2.9 us).
constexpr int64_t kAssumedWaitLatency = 9'600;

/// A rank's clock on rank 0's, safe for times that no run ever had.
class RankClock {
 public:
  explicit RankClock(const RankInfo& rank);
  int64_t at(int64_t time_ns) const;

 private:
  int64_t offset_ns_ = 0;
  double drift_ = 0, reference_ns_ = 0;
};

/// [event] of one rank, by its place in Trace::events.
template <typename Value>
class ByEvent {
 public:
  void assign(const RankEvents& events, Value value) {
    first_ = events.first;
    values_.assign(events.last - events.first, value);
  }
  Value& operator[](uint32_t event) { return values_[event - first_]; }
  const Value& operator[](uint32_t event) const {
    return values_[event - first_];
  }

 private:
  uint32_t first_ = 0;
  std::vector<Value> values_;
};

struct GraphDraft {
  GraphDraft(const AlignedTrace& recorded, const TraceWindow& chosen)
      : by_rank(recorded.by_rank()),
        trace(recorded.frame()),
        matching(recorded.matching()),
        window(chosen) {}

  const TraceByRank& by_rank;
  const Trace& trace;
  const CollectiveMatching& matching;
  TraceWindow window;
  std::vector<RankClock> clocks;                      ///< [rank place]
  std::vector<std::pair<uint32_t, uint32_t>> places;  ///< Rank, place; sorted.
  std::vector<CallClass> call_of;                     ///< [StringId]
  std::vector<uint32_t> rank_place;   ///< [stream] place of its rank.
  std::vector<uint32_t> stream_slot;  ///< [stream] place in recorded_streams.
  std::vector<RankDraft> ranks;       ///< [rank place]
  std::vector<TimedGraph::Span> steps;
  GraphTally tally;

  // Of the rank at work. Numbers of nodes are its own.
  uint32_t place = 0;            ///< In Trace::ranks.
  uint32_t base = 0;             ///< Number of trace.events[0] over all ranks.
  uint32_t first = 0, last = 0;  ///< Its events, in trace.events.
  std::vector<uint32_t> by_stream;     ///< Events, stream by stream, by start.
  std::vector<uint32_t> stream_first;  ///< [slot] place in by_stream; +1 end.
  /// [event] of device work or a recorded synchronization: its host call.
  ByEvent<uint32_t> launch_of;
  ByEvent<uint32_t> child_of;  ///< [event] of a call: its last device work.
  ByEvent<uint32_t> first_node, last_node;  ///< [event] or kNoNode.
  ByEvent<Interval> time;                   ///< [event] On rank 0's clock.
  std::vector<DraftNode> nodes;
  std::vector<DraftEdge> edges;

  /// Frees what only the rank at work needed.
  void forget_rank();
  std::span<const uint32_t> events_of(uint32_t stream) const {
    const uint32_t slot = stream_slot[stream];
    return std::span(by_stream).subspan(
        stream_first[slot], stream_first[slot + 1] - stream_first[slot]);
  }
  CallClass call(const Event& event) const {
    return call_of[index_of(event.name)];
  }
  int32_t collective_of(uint32_t event) const {
    return trace.events[event].kind == EventKind::kCollective
               ? matching.place_of(base + event)
               : -1;
  }
  /// Rank 0's time, saturated so that differences and sums cannot overflow.
  int64_t at(uint32_t rank, int64_t time_ns) const {
    return clocks[rank].at(time_ns);
  }
  void add_edge(uint32_t from, uint32_t to, EdgeKind kind, int64_t delay_ns = 0,
                bool from_start = false) {
    edges.push_back({delay_ns, from, to, kind, from_start});
  }
  /// The place of a rank in Trace::ranks, or kNoNode.
  uint32_t place_of(uint32_t rank) const;
  bool same_process(uint32_t stream, uint32_t other) const {
    return trace.streams[stream].process == trace.streams[other].process;
  }
};

/// The nodes of all ranks in the order of finding them, rank after rank.
struct LooseGraph {
  std::vector<int64_t> start_ns;  ///< [node] Recorded.
  TickColumn lasts;               ///< [node] Recorded end less start.
  std::vector<uint32_t> event;    ///< [node] Its number over all ranks.
  TickColumn named;               ///< [node] As DraftNode::named_ns.
  std::vector<uint32_t> range;    ///< [node] Of `named`: number of the event.
  NarrowColumn<int32_t, int16_t> step;  ///< [node]
  std::vector<uint32_t> rank_first;     ///< [rank place] first node; +1 end.
  /// As TimedGraph::beyond_ns.
  std::vector<std::pair<uint32_t, int64_t>> beyond_ns;
  /// Node and place in the matching, of members.
  std::vector<std::pair<uint32_t, uint32_t>> collectives;
  /// [place in CollectiveMatching::of_event] Its node, or kNoNode.
  std::vector<uint32_t> member_node;
  // Edges by source: those out of node n are first_out[n] .. first_out[n + 1].
  std::vector<uint32_t> first_out = {0};
  std::vector<uint32_t> to;
  TickColumn delay;
  std::vector<uint8_t> kind;  ///< EdgeKind and, in the lowest bit, from_start.
  /// [edge] Its turn among those found, of a trace with dependencies, which may
  /// close cycles: it decides where these are opened.
  std::vector<uint32_t> turn;
  bool timed = true;  ///< As TimedGraph::timed.

  bool lasting = false;  ///< A node lasts, as recorded.

  size_t size() const { return event.size(); }
  int64_t end_ns(uint32_t node) const { return start_ns[node] + lasts[node]; }
  EdgeKind edge_kind(size_t edge) const {
    return static_cast<EdgeKind>(kind[edge] >> 1);
  }
  bool from_start(size_t edge) const { return (kind[edge] & 1) != 0; }
  /// When an edge out of `from` lets its target start, by recorded times.
  int64_t allows_ns(uint32_t from, size_t edge) const {
    return (from_start(edge) ? start_ns[from] : end_ns(from)) + delay[edge];
  }
  uint32_t place_of_rank(uint32_t node) const {
    return static_cast<uint32_t>(
        std::upper_bound(rank_first.begin(), rank_first.end(), node) -
        rank_first.begin() - 1);
  }
  /// Adds the draft's rank, which is done.
  void add_rank(const GraphDraft& draft);
  /// Adds edges between nodes that are here, behind those of their sources.
  void add_edges(const std::vector<DraftEdge>& edges);

 private:
  void add_nodes(const GraphDraft& draft, uint32_t first);
  void add_edges(const GraphDraft& draft, uint32_t first, uint32_t first_edge);
};

/// Whether an event of a device stream keeps the device busy.
bool is_busy(const Event& event);

/// Ties device work to the calls that launched it: launch_of and child_of.
void find_launches(GraphDraft& draft);
/// Whether steps are marked where the device does them (XProf's line "Steps"):
/// most marks of the rank at work begin and end with work of its device.
bool marked_by_device(const GraphDraft& draft);
/// Adds the nodes and order of a host thread (or of a trainer's stream).
void add_host_thread(GraphDraft& draft, uint32_t stream);
/// Adds the nodes of a device stream. Requires: host threads are there.
void add_device_stream(GraphDraft& draft, uint32_t stream);
/// Adds every event as a node without order. Requires: the rank's dependencies
/// name its events.
void add_flat_stream(GraphDraft& draft, uint32_t stream);

/// Edges of launches and of stream order, delays explained up to the typical.
void add_device_order(GraphDraft& draft, uint32_t rank);
/// Edges into host calls that waited for the device; moves their starts.
void add_host_waits(GraphDraft& draft, uint32_t rank);
/// Threads that wait for a marked step's device work without a call.
void add_step_waits(GraphDraft& draft, uint32_t rank);
/// Edges between streams of a rank, recorded or inferred; whether anything was
/// recorded of such waits, calls too. Requires: all edges of device order.
bool add_stream_waits(GraphDraft& draft, uint32_t rank);
/// Device work that begins behind waits.
struct AwaitingWork {
  uint32_t node = 0;
  uint32_t calls = 0;     ///< That made it wait.
  int64_t called_ns = 0;  ///< The last of them.
};
struct WaitInTurn {
  uint32_t node = 0, awaited = 0;  ///< Nodes; the latter of a collective.
  auto operator<=>(const WaitInTurn&) const = default;
};
/// What works wait for in turn, where that is told: by node. Requires: each
/// node once.
std::vector<WaitInTurn> waits_in_turn(const GraphDraft& draft, uint32_t rank,
                                      std::span<const AwaitingWork> works);
/// For a rank of which nothing was: edges into collectives from what was
/// launched before them.
void add_producer_waits(GraphDraft& draft, uint32_t rank);
/// Edges into device work that began when work of another stream ended, and
/// that nothing else explains. `ready_ns`: [node] latest of the edges so far.
void add_coincident_waits(GraphDraft& draft, uint32_t rank,
                          std::span<const int64_t> ready_ns);
/// Edges between host threads where no dependency was recorded. Requires:
/// dependencies are there, host waits not yet added.
void add_handoffs(GraphDraft& draft, uint32_t rank);
/// Edges of the rank's recorded dependencies.
void add_dependencies(GraphDraft& draft);
/// Order within flat rows for what has no edge so far.
void order_free_nodes(GraphDraft& draft);

/// When an edge lets its node start, by recorded times.
int64_t allows_ns(const GraphDraft& draft, const DraftEdge& edge);
/// [node] When its edges let it start; without any, the start of its rank.
std::vector<int64_t> ready_times(const GraphDraft& draft,
                                 const TimedGraph::Span& rank);

/// Without times, the member that lasted the shortest waited the least: where
/// none leaves before all have come, a message's ends among them, the others'
/// more is their wait. One that lasts no time was not measured. Requires:
/// untimed ranks alone.
void take_untimed_waits_out(const GraphDraft& draft, LooseGraph& loose);
/// Edges from sends to their receives, of untimed ranks: they do not meet, as
/// nothing says that a send waited for its receiver.
std::vector<DraftEdge> messages(const GraphDraft& draft,
                                const LooseGraph& loose);

/// Nodes that meet: [node] number of its meeting, or -1.
struct Meetings {
  NarrowColumn<int32_t, int16_t> of_node;
  std::vector<std::vector<uint32_t>> members;  ///< [meeting], ascending.
  /// As TimedGraph::partners, of messages in either direction; of a meeting
  /// that has any, every member has.
  std::vector<TimedGraph::Partner> partners;
};
/// Members of matched collectives that are in the graph, two ranks at least.
Meetings find_meetings(const GraphDraft& draft, const LooseGraph& loose);

/// Fills TimedGraph::transfers; `by_ring` is MeetingGroup's.
void price_transfers(const CollectiveMatching& matching, bool by_ring,
                     TimedGraph& graph);

/// Orders the nodes and turns recorded times into durations and gaps; `places`
/// becomes [loose node] its node in the graph. Edges that the order leaves out
/// are gone from `loose`; of the `last` packing, all of it is.
TimedGraph pack_graph(GraphDraft& draft, LooseGraph& loose,
                      const Meetings& meetings,
                      std::vector<TimedGraph::Span> ranks,
                      std::vector<uint32_t>& places, bool last = false);

}  // namespace reprise
