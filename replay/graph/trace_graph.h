// The dependency graph of an imported trace, over all ranks.
//
// Nodes. Device work is one node an event. Host ranges nest, so a host event is
// one node for each stretch that it spends itself between its children. A host
// call that waits for the device (a synchronization, a blocking copy) is the
// stretch after its wait: what it waited is an edge, recomputed by every
// replay. The members of a matched collective meet: they stand side by side,
// and a member's transfer begins when all of them have arrived. Where nothing
// has times, a send waits for nobody, and its receive for it.
//
// Time between ops on a host thread is the next node's gap. Within an
// annotation (a phase, a module, an optimizer's step) it is that range's own
// time, told apart from time that nothing names; a range from half a step on,
// and a step's mark, names nothing.
//
// Edges explain when a node could start: its thread's order; the call that
// launched it (one may own hundreds of kernels); its stream's order, from start
// to start where recorded work overlaps; events, waits and synchronizations,
// recorded or inferred from calls and times; a host thread that waited for
// another; recorded dependencies (Chakra, dPRO). Delays of launches and between
// queued kernels are explained up to what is typical of the rank. What remains
// between a node's last edge and its recorded start is its gap: replayed, and
// counted against the answer as far as no range names it.
//
// Never cyclic: an edge that would close a cycle is left out and counted.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "data/result.h"
#include "data/trace/trace.h"
#include "replay/collectives/collectives.h"

namespace reprise {

/// Part of a trace: a step of every rank with the device work that was launched
/// in it or was under way when it began, or everything.
struct TraceWindow {
  int32_t step = std::numeric_limits<int32_t>::min();  ///< Minimum: all.
  bool all() const { return step == std::numeric_limits<int32_t>::min(); }
};

/// Why a node cannot start earlier; the less trusted come later, and are the
/// first to go where a cycle must be opened.
enum class TraceEdgeKind : uint8_t {
  kThread,           ///< Order of a host thread.
  kLaunch,           ///< A host call and the device work that it started.
  kDependency,       ///< Recorded dependency.
  kEvent,            ///< Recorded wait of a stream for an event.
  kSynchronization,  ///< Device work that a host call waited for.
  kStream,           ///< Order of a device stream.
  kHandoff,          ///< A host thread that waited for another.
  kInferred,         ///< A stream's wait that calls and times suggest.
};
constexpr size_t kTraceEdgeKinds = 8;
std::string_view name_of(TraceEdgeKind kind);

/// CSR by target: the edges into node n are edges[first[n] .. first[n+1]).
/// Nodes stand in a topological order: every edge comes from a lower number.
struct TraceGraph {
  struct Edge {
    int64_t delay_ns = 0;  ///< From the end (or start) of `from`; may be < 0.
    uint32_t from = 0;     ///< Node.
    TraceEdgeKind kind = TraceEdgeKind::kThread;
    bool from_start = false;  ///< Counts from the start of `from`.
  };
  std::vector<uint32_t> event;       ///< [node] index in Trace::events.
  std::vector<uint32_t> rank;        ///< [node] place in Trace::ranks.
  std::vector<int32_t> step;         ///< [node] place in `steps`, or -1.
  std::vector<int64_t> duration_ns;  ///< [node] own time, waits taken out.
  std::vector<int64_t> gap_ns;       ///< [node] before its start.
  std::vector<int64_t> named_ns;     ///< [node] of its gap, in a named range.
  std::vector<uint32_t> range;       ///< [node] that range's event.
  std::vector<uint32_t> first;
  std::vector<Edge> edges;
  std::vector<int32_t> collective;  ///< [node] place in the matching, or -1.
  /// [node] Members that meet here: their number at the first of them, 0 at the
  /// others; 1 for every other node.
  std::vector<uint32_t> meeting;
  /// [node] Whether it ends no earlier than the meeting's last arrival plus its
  /// duration (a broadcast's root may leave before others come).
  std::vector<uint8_t> waits;

  /// Of a collective's transfer, what does not shrink with bandwidth: latency,
  /// by a line through the least transfers of its kind (operation and group
  /// size) at each size, or 10 us where there is one size; and waiting for
  /// members that the trace lacks, by which it exceeds the least one of its
  /// kind and size.
  struct Transfer {
    int64_t latency_ns = 0, absent_ns = 0;
  };
  std::vector<Transfer> transfers;  ///< [place in the matching]

  /// Recorded times of a rank in the window, and of a step on it, on rank 0's
  /// clock. A step ends when its host work and all device work launched in it
  /// have ended.
  struct Span {
    uint32_t rank = 0;  ///< Place in Trace::ranks.
    int32_t step = 0;   ///< Number of the step.
    int64_t start_ns = 0, end_ns = 0;
  };
  std::vector<Span> ranks;  ///< [rank place]; start > end: nothing recorded.
  std::vector<Span> steps;  ///< By (rank, step); of the window.

  bool timed = true;  ///< False: durations and dependencies only were recorded.
  int64_t cycles_repaired = 0;
  std::vector<std::string> notes;  ///< What was missing or contradictory.

  size_t size() const { return event.size(); }
};

/// Requires: clocks aligned (or one rank); `matching` is of `trace`. Errors:
/// kInvalid when the window does not exist or holds nothing to replay (no
/// device or host work; neither times nor durations). Deterministic. Cost:
/// O(events log events).
Result<TraceGraph> build_trace_graph(const Trace& trace,
                                     const CollectiveMatching& matching,
                                     const TraceWindow& window = {});

}  // namespace reprise
