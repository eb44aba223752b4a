// The dependency graph of an imported trace, over all ranks.
//
// Nodes. Device work is one node an event. Host ranges nest, so a host event is
// one node for each stretch that it spends itself between its children. A host
// call that waits for the device (a synchronization, a blocking copy) is the
// stretch after its wait: what it waited is an edge, recomputed by every
// replay. The members of a matched collective meet: they stand side by side,
// and a member's transfer begins when all of them have arrived, of kernels with
// several messages when these messages' other ends have. Where nothing has
// times, a send waits for nobody, and its receive for it.
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
#include <memory>

#include "data/result.h"
#include "replay/clocks/aligned_trace.h"
#include "replay/graph/timed_graph.h"

namespace reprise {

/// Part of a trace: a step of every rank with the device work that was launched
/// in it or was under way when it began, or everything.
struct TraceWindow {
  int32_t step = std::numeric_limits<int32_t>::min();  ///< Minimum: all.
  bool all() const { return step == std::numeric_limits<int32_t>::min(); }
};

/// Errors: kInvalid when the window does not exist or holds nothing to replay
/// (no device or host work; neither times nor durations). Deterministic. Cost:
/// O(events log events).
Result<TimedGraph> build_trace_graph(const AlignedTrace& recorded,
                                     const TraceWindow& window = {});

/// The same rank by rank, for who asks more of each rank while its events are
/// at hand. Requires: `recorded` outlives this.
class TraceGraphBuilder {
 public:
  TraceGraphBuilder(const AlignedTrace& recorded, const TraceWindow& window);
  ~TraceGraphBuilder();
  /// Adds the next one of Trace::ranks.
  void add_rank();
  /// Requires: all ranks are added.
  Result<TimedGraph> finish() &&;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace reprise
