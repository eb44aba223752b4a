// The timeline of a replay: the events of a replayed window at the times that
// it predicts, and the same events as they were recorded.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "data/trace/trace_by_rank.h"
#include "replay/graph/trace_graph.h"
#include "replay/simulate/trace_replay.h"

namespace reprise {

/// Two traces of the same events and steps, their times on rank 0's clock.
struct ReplayTimeline {
  static constexpr uint32_t kNoEvent = std::numeric_limits<uint32_t>::max();
  Trace recorded;  ///< Without events where the window has no times.
  Trace predicted;
  /// [event of the replayed trace] Its place in `recorded` and `predicted`, or
  /// kNoEvent.
  std::vector<uint32_t> recorded_place, predicted_place;
};

/// Device work runs when its node does. A host range runs as the stretches of
/// its thread around its ends do: between two of them, time stretches evenly.
/// Requires: `replay` is of `graph` (with or without what-ifs) and `trace`.
/// Cost: O(n log n).
ReplayTimeline replay_timeline(const Trace& trace, const TimedGraph& graph,
                               const TraceReplay& replay);

/// A rank (its place) and a trace that holds its predicted events alone.
using RankVisitor = std::function<void(uint32_t place, const Trace& predicted)>;
/// The same events, one rank after the other, by place: memory of one rank.
void visit_predicted_ranks(const TraceByRank& trace, const TimedGraph& graph,
                           const TraceReplay& replay, const RankVisitor& visit);

}  // namespace reprise
