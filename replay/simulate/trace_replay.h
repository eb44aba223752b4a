// Replays a trace of somebody else's run: a graph inferred from what was
// recorded, durations replayed, waits recomputed, gaps explained or counted.
//
// Model. A node starts when its edges allow it and its gap has passed, and ends
// its duration later. Members of a collective that meet end when the last of
// them has arrived and their transfer has passed. Without what-ifs this gives
// the recorded times back wherever the graph's edges agree with them, so the
// error of a replay says little; the unexplained share says how much of it was
// copied.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/result.h"
#include "data/trace/trace.h"
#include "replay/graph/trace_graph.h"
#include "replay/simulate/what_if.h"

namespace reprise {

/// Why the critical path lasts where it lasts.
enum class TracePathKind : uint8_t {
  kKernel,      ///< Device work that is no collective or copy.
  kCollective,  ///< Transfer of a collective.
  kCopy,        ///< Copies and memsets.
  kHost,        ///< Host ops and runtime calls.
  /// From a launch's start to its device work's start; between queued work of a
  /// stream; from an event to who awaited it.
  kLaunch,
  kRange,        ///< A host thread within a named range, between its ops.
  kUnexplained,  ///< A recorded gap that no dependency explains.
};
std::string_view name_of(TracePathKind kind);

/// One stretch of the global critical path; stretches cover it without a gap.
struct TracePathEntry {
  TracePathKind kind = TracePathKind::kKernel;
  uint32_t rank = 0;
  uint32_t event = 0;  ///< Index in Trace::events; of a gap: what it precedes.
  int64_t start_ns = 0, duration_ns = 0;  ///< On rank 0's clock.
};

/// A step on one rank. It lasts from the end of the rank's step before it to
/// its own end, and the first one from its mark.
struct ReplayedStep {
  uint32_t rank = 0;  ///< Place in Trace::ranks.
  int32_t step = 0;
  int64_t predicted_ns = 0, measured_ns = 0;
  int64_t start_ns = 0;  ///< Predicted, on rank 0's clock.
};

/// A replayed window (a step or the whole trace) on all ranks.
struct TraceReplay {
  int64_t predicted_ns = 0, measured_ns = 0;  ///< Maximum over ranks.
  std::vector<int64_t> rank_predicted_ns, rank_measured_ns;  ///< [rank place]
  /// [rank place] Share of the path to the rank's end that is replayed gap.
  std::vector<double> rank_unexplained_share;
  std::vector<ReplayedStep> steps;            ///< By (rank, step).
  std::vector<int64_t> start_ns, end_ns;      ///< [graph node], predicted.
  std::vector<TracePathEntry> critical_path;  ///< In time order.
  /// Share of the critical path that is replayed gap.
  double unexplained_share = 0;
  /// predicted_ns if no gap were replayed but those within named ranges.
  int64_t without_gaps_ns = 0;
};

/// Times of all nodes, on rank 0's clock.
struct TraceTimes {
  std::vector<int64_t> start_ns, end_ns;  ///< [node]
};

/// One sweep in the graph's order. Cost: O(nodes + edges).
TraceTimes evaluate(const TraceGraph& graph);

/// The latest chain of causes that ends with the last node to end; ties go to
/// the lower node. Requires: `times` are the graph's.
std::vector<TracePathEntry> critical_path(const Trace& trace,
                                          const TraceGraph& graph,
                                          const TraceTimes& times);

/// Replays `graph` under what-ifs (none: as recorded). Errors: as
/// apply_what_if.
Result<TraceReplay> replay_trace(const Trace& trace, const TraceGraph& graph,
                                 std::span<const WhatIf> what_ifs = {});

/// Edits durations, gaps and edges of a graph. Errors: kInvalid when no event
/// matches, the rank does not exist, or there is no collective to change.
Status apply_what_if(const WhatIf& what_if, const Trace& trace,
                     TraceGraph& graph);

}  // namespace reprise
