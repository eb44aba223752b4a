// Replay in the graph's own order: one sweep in which every node pulls from
// those before it. Nothing is decided on the way, so resources count as free
// whenever the edges allow, and there is no slow-down and no shared link: for
// these there is `decide` (replay/simulate), which gives the same times where a
// graph has none of them.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "replay/graph/timed_graph.h"

namespace reprise {

/// Times of all nodes, on rank 0's clock.
struct GraphTimes {
  static constexpr uint32_t kNoEdge = std::numeric_limits<uint32_t>::max();
  std::vector<int64_t> start_ns;  ///< [node] Of a member: when it arrived.
  std::vector<int64_t> end_ns;    ///< [node]
  /// [node] Where gaps keep a stream busy: when that began. Of a member: when
  /// the transfer began. Empty in the graph of a trace.
  std::vector<int64_t> begun_ns;
  /// [node] Edge that came last, of a member the edge of the last to arrive, or
  /// kNoEdge. Empty in the graph of a trace: follows from the times.
  std::vector<uint32_t> cause;
  int64_t finish_ns = 0;  ///< Of a step, its own end included; else 0.
};

/// Times stop here, whatever a what-if makes of damaged durations.
constexpr int64_t kEndOfTime = 4'000'000'000'000'000'000;

/// Of whom a member of a meeting waits for, itself included, the one that
/// begins last. `last`: of all members; `start_ns`: [node].
uint32_t last_awaited(const TimedGraph& graph, uint32_t node, uint32_t last,
                      const std::vector<int64_t>& start_ns);

/// Requires: no limited resource. `room`: times of a trace's graph, no longer
/// needed, whose memory is used again. Cost: O(nodes + edges).
GraphTimes evaluate(const TimedGraph& graph, GraphTimes room = {});
/// Of the graph of a trace, as if its gaps were others: [node].
GraphTimes evaluate_trace(const TimedGraph& graph, const TickColumn& gap,
                          GraphTimes room = {});

}  // namespace reprise
