// Exact re-ordering of a window: some consecutive ops of a sequence are put
// into the order that minimises the makespan while everything outside keeps its
// relative order. The rest of the sequence enters as heads and tails, so a
// window costs the same in any instance; GLPK decides the pairs that the
// incumbent leaves open.
#pragma once

#include <cstdint>
#include <optional>

#include "optimizer/order/order_graph.h"

namespace reprise {

struct WindowResult {
  /// Strictly shorter than the incumbent.
  std::optional<OrderSolution> better;
  bool proved = false;  ///< No order of this window is shorter than the answer.
  uint64_t nodes = 0;   ///< Branch-and-bound nodes solved.
};

/// Re-orders `solution.sequence[first, first + count)`. Solves a GLPK problem,
/// if any pair is left open, wholly in the calling thread. Deterministic:
/// limited by nodes, not by time. Source: facts of the model: makespan cutoff
/// as the incumbent, big-M disjunctions, C integer.
WindowResult improve_window(const OrderGraph& graph,
                            const OrderSolution& solution, uint32_t first,
                            uint32_t count, uint64_t node_limit);

}  // namespace reprise
