// A graph under construction: recorded nodes and edges in the order of finding
// them. Each part of the builder adds its own kind; build_trace_graph fits
// delays to what was recorded, orders the nodes and packs them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/trace/trace.h"
#include "replay/collectives/collectives.h"
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

/// What a host call does, by its name.
enum class CallClass : uint8_t {
  kPlain,
  kCopy,        ///< May block until its copy is done.
  kSyncDevice,  ///< Waits for all device work (cudaFree does, too).
  kSyncStream,  ///< Waits for a stream.
  kSyncEvent,   ///< Waits for a recorded event.
  kStreamWait,  ///< Lets a stream wait for a recorded event.
  kRecord,      ///< Records an event on a stream.
  kStepMark,    ///< The range of a step.
};
/// By StringId, for all names of a trace.
std::vector<CallClass> classify_calls(const Trace& trace);

struct DraftNode {
  int64_t start_ns = 0;  ///< Recorded, on rank 0's clock; after any wait.
  int64_t end_ns = 0;
  uint32_t event = 0;
  uint32_t rank = 0;          ///< Place in Trace::ranks.
  int32_t collective = -1;    ///< Place in the matching.
  int32_t step = -1;          ///< Place in GraphDraft::steps.
  uint32_t launch = kNoNode;  ///< Device work: the host node that launched it.
  int64_t issued_ns = 0;  ///< Device work: start of that call, else its own.
  int64_t named_ns = 0;   ///< Before it, within annotations but no op …
  uint32_t range = 0;     ///< … and the last of those, if any.
  bool cut = false;       ///< Began before the window.
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
  uint32_t size() const { return last - first; }
};

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
};

/// What one rank adds.
struct RankDraft {
  int64_t start_ns = std::numeric_limits<int64_t>::min();  ///< Of the window.
  int64_t end_ns = std::numeric_limits<int64_t>::max();
  bool timed = true;
  /// An annotation from this width on does not explain its own time.
  int64_t widest_range_ns = 0;
  std::vector<uint32_t> recorded_streams;  ///< All of the rank's, by number.
  std::vector<StreamNodes> threads;        ///< Host threads.
  std::vector<StreamNodes> streams;        ///< Device streams.
  std::vector<StreamNodes> flat;  ///< Rows that only dependencies order.
  std::vector<HostWait> host_waits;
  std::vector<StreamWaitCall> stream_waits;
  /// Correlation and event of each host call that has one, sorted.
  std::vector<std::pair<int64_t, uint32_t>> calls;
  int64_t launch_ns = 0;    ///< Typical launch latency of an idle stream.
  int64_t dispatch_ns = 0;  ///< Typical gap between queued kernels.
};

struct GraphTally {
  int64_t untimed_ranks = 0, polls = 0;
  int64_t no_launch = 0, bad_launch = 0, dangling = 0, contradicted = 0;
  int64_t waits_without_source = 0, overlaps = 0, early_leavers = 0;
};

/// A rank's clock on rank 0's, safe for times that no run ever had.
class RankClock {
 public:
  explicit RankClock(const RankInfo& rank);
  int64_t at(int64_t time_ns) const;

 private:
  int64_t offset_ns_ = 0;
  double drift_ = 0, reference_ns_ = 0;
};

struct GraphDraft {
  GraphDraft(const Trace& recorded, const CollectiveMatching& matched,
             const TraceWindow& chosen)
      : trace(recorded), matching(matched), window(chosen) {}

  const Trace& trace;
  const CollectiveMatching& matching;
  TraceWindow window;
  std::vector<RankClock> clocks;                      ///< [rank place]
  std::vector<std::pair<uint32_t, uint32_t>> places;  ///< Rank, place; sorted.
  std::vector<CallClass> call_of;                     ///< [StringId]
  std::vector<uint32_t> by_stream;     ///< Events, stream by stream, by start.
  std::vector<uint32_t> stream_first;  ///< [stream] place in by_stream; +1 end.
  std::vector<uint32_t> rank_place;    ///< [stream] place of its rank.
  /// [event] of device work or a recorded synchronization: its host call.
  std::vector<uint32_t> launch_of;
  std::vector<uint32_t> child_of;  ///< [event] of a call: its last device work.
  std::vector<uint32_t> first_node, last_node;  ///< [event] or kNoNode.
  std::vector<DraftNode> nodes;
  std::vector<DraftEdge> edges;
  std::vector<RankDraft> ranks;  ///< [rank place]
  std::vector<TimedGraph::Span> steps;
  GraphTally tally;

  std::span<const uint32_t> events_of(uint32_t stream) const {
    return std::span(by_stream).subspan(
        stream_first[stream], stream_first[stream + 1] - stream_first[stream]);
  }
  CallClass call(const Event& event) const {
    return call_of[index_of(event.name)];
  }
  /// Rank 0's time, saturated so that differences and sums cannot overflow.
  int64_t at(uint32_t rank, int64_t time_ns) const {
    return clocks[rank].at(time_ns);
  }
  void add_edge(uint32_t from, uint32_t to, EdgeKind kind, int64_t delay_ns = 0,
                bool from_start = false) {
    edges.push_back({delay_ns, from, to, kind, from_start});
  }
  /// Frees what only finding nodes, edges and meetings needed.
  void release_indices() {
    call_of = {};
    by_stream = stream_first = launch_of = child_of = first_node =
        last_node = {};
    for (RankDraft& rank : ranks) rank.calls = {};
  }
  /// The place of a rank in Trace::ranks, or kNoNode.
  uint32_t place_of(uint32_t rank) const;
  bool same_process(uint32_t stream, uint32_t other) const {
    return trace.streams[stream].process == trace.streams[other].process;
  }
};

/// Whether an event of a device stream keeps the device busy.
bool is_busy(const Event& event);
/// The host call with a correlation, or kNoNode.
uint32_t call_of_correlation(const RankDraft& rank, int64_t correlation);

/// Ties device work to the calls that launched it: launch_of and child_of.
void find_launches(GraphDraft& draft);
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
/// Edges between streams of a rank, recorded or inferred. Requires: all edges
/// of device order.
void add_stream_waits(GraphDraft& draft, uint32_t rank);
/// Edges into device work that began when work of another stream ended, and
/// that nothing else explains. `ready_ns`: [node] latest of the edges so far.
void add_coincident_waits(GraphDraft& draft, uint32_t rank,
                          std::span<const int64_t> ready_ns);
/// Edges between host threads. Requires: host waits not yet added.
void add_handoffs(GraphDraft& draft, uint32_t rank);
/// Edges of recorded dependencies, all ranks; order within flat rows for what
/// has none.
void add_dependencies(GraphDraft& draft);

/// When an edge lets its node start, by recorded times.
int64_t allows_ns(const GraphDraft& draft, const DraftEdge& edge);
/// [node] When its edges let it start; without any, the start of its rank.
std::vector<int64_t> ready_times(const GraphDraft& draft,
                                 const std::vector<TimedGraph::Span>& ranks);

/// Edges from sends to their receives, of untimed ranks: they do not meet, as
/// nothing says that a send waited for its receiver.
void add_messages(GraphDraft& draft);

/// Nodes that meet: [node] number of its meeting, or kNoNode.
struct Meetings {
  std::vector<uint32_t> of_node;
  std::vector<std::vector<uint32_t>> members;  ///< [meeting], ascending.
};
/// Members of matched collectives that are in the draft, two ranks at least.
Meetings find_meetings(const GraphDraft& draft);

/// Fills TimedGraph::transfers.
void price_transfers(const CollectiveMatching& matching, TimedGraph& graph);

/// Orders the draft's nodes and turns recorded times into durations and gaps;
/// `places` becomes [draft node] its node in the graph. Edges that the order
/// leaves out are gone from the draft, and of the `last` packing its nodes.
TimedGraph pack_graph(GraphDraft& draft, const Meetings& meetings,
                      std::vector<TimedGraph::Span> ranks,
                      std::vector<uint32_t>& places, bool last = false);

}  // namespace reprise
