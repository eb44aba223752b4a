// Event-driven replay of a graph: time goes on from one end to the next, and
// what an end lets begin begins.
//
// Model. A node takes its duration alone. While its rank both computes and
// communicates, compute takes `slowdown` times as long, and so does a transfer
// of which any member computes. Transfers on one link share it evenly once
// their latency has passed. A resource with a capacity runs the lowest of the
// nodes that are ready (list scheduling). Equal times are settled by resource,
// then by order of beginning.
//
// Work is counted in ticks and rates in 1/1024, all integers, so that a replay
// is the same on every machine; a task is rebased only when its rate changes,
// and ends are rounded up to a nanosecond.
#pragma once

#include "replay/graph/evaluate.h"
#include "replay/graph/timed_graph.h"

namespace reprise {

/// Requires: an acyclic graph. Cost: O((nodes + edges) log running nodes), and
/// for each change of rate the members of the collective.
GraphTimes decide(const TimedGraph& graph);

}  // namespace reprise
