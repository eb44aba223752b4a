// The dependency graph of an imported trace, over all ranks.
//
// Nodes are events (host ranges nest, so a host op is the time it spends itself
// between its children). Edges: host threads in order; launch to device work by
// correlation (one launch may own hundreds of kernels); a stream's order
// without assuming that nothing overlaps; recorded events, waits and
// synchronizations, inferred where they were not recorded; collectives across
// ranks; recorded dependencies (Chakra, dPRO). Never cyclic: an edge that would
// close a cycle is left out and counted.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "data/result.h"
#include "data/trace/trace.h"
#include "replay/collectives.h"

namespace reprise {

/// Part of a trace, on rank 0's clock: a step of every rank, or everything.
struct TraceWindow {
  int32_t step = std::numeric_limits<int32_t>::min();  ///< Minimum: all.
};

/// CSR by target: the edges into node n are edges[first[n] .. first[n+1]).
struct TraceGraph {
  struct Edge {
    uint32_t from = 0;        ///< Node.
    int64_t delay_ns = 0;     ///< From the end (or start) of `from`.
    bool from_start = false;  ///< Counts from the start (a launch's children).
  };
  std::vector<uint32_t> event;       ///< [node] index in Trace::events.
  std::vector<int64_t> duration_ns;  ///< [node] own time, waits taken out.
  std::vector<uint32_t> first;
  std::vector<Edge> edges;
  std::vector<int32_t> collective;  ///< [node] place in the matching, or -1.
  int64_t cycles_repaired = 0;
  std::vector<std::string> notes;
};

/// Requires: clocks aligned (or one rank). Errors: kInvalid when the window
/// does not exist.
Result<TraceGraph> build_trace_graph(const Trace& trace,
                                     const CollectiveMatching& matching,
                                     const TraceWindow& window = {});

}  // namespace reprise
