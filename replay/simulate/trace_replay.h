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
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/result.h"
#include "data/trace/trace.h"
#include "replay/graph/evaluate.h"
#include "replay/graph/trace_graph.h"
#include "replay/simulate/critical_path.h"
#include "replay/simulate/what_if.h"

namespace reprise {

/// A step on one rank. It lasts from the end of the rank's step before it to
/// its own end, and the first one from its mark.
struct ReplayedStep {
  uint32_t rank = 0;  ///< Place in Trace::ranks.
  int32_t step = 0;
  int64_t predicted_ns = 0, measured_ns = 0;
  int64_t start_ns = 0;  ///< Predicted, on rank 0's clock.
  int64_t measured_start_ns = 0;
  bool is_warmup = false;
};

/// A step over all ranks, as steps_over_ranks has it.
struct JobStep {
  int32_t step = 0;
  int64_t predicted_ns = 0, measured_ns = 0;
};

/// A replayed window (a step or the whole trace) on all ranks.
struct TraceReplay {
  /// As replayed_span_ns and recorded_span_ns have it.
  int64_t predicted_ns = 0, measured_ns = 0;
  std::vector<int64_t> rank_predicted_ns, rank_measured_ns;  ///< [rank place]
  /// [rank place] Share of the path to the rank's end that is replayed gap, in
  /// its steps where there are any.
  std::vector<double> rank_unexplained_share;
  std::vector<ReplayedStep> steps;  ///< By (rank, step).
  /// Those that as many ranks have as any, by number; no warm-up, and none in
  /// which a rank's recording begins later than others', if there are more.
  std::vector<JobStep> job_steps;
  std::vector<int64_t> start_ns, end_ns;  ///< [graph node], predicted.
  bool as_recorded = true;                ///< Without what-ifs.
  /// In time order; where there are steps, of these alone: what a process does
  /// before the first of them, loading libraries for seconds, is no step's.
  std::vector<PathEntry> critical_path;
  PathSources sources;  ///< Of the critical path.
  /// predicted_ns if no gap were replayed but those within named ranges.
  int64_t without_gaps_ns = 0;
  /// What the steps, or without steps the window, would then last, as a share.
  double without_gaps_share = 1;
};

/// What the window takes by these times: from the start of a rank to its last
/// end, of the rank where that is longest; of a step's window no more than from
/// the end of the step before, as steps_over_ranks has it.
int64_t replayed_span_ns(const TimedGraph& graph, const GraphTimes& times);
/// What it took as recorded.
int64_t recorded_span_ns(const TimedGraph& graph);
/// In the graph of one step's window: when that step begins, as long before its
/// end as it lasts. Nothing in other graphs.
std::optional<int64_t> step_begin_ns(const TimedGraph& graph,
                                     const GraphTimes& times);

/// Replays `graph` under what-ifs (none: as recorded); `facts` are of the trace
/// that it was built of. Errors: as apply_what_if.
Result<TraceReplay> replay_trace(const NodeFacts& facts,
                                 const TimedGraph& graph,
                                 std::span<const WhatIf> what_ifs = {});
Result<TraceReplay> replay_trace(const Trace& trace, const TimedGraph& graph,
                                 std::span<const WhatIf> what_ifs = {});

}  // namespace reprise
