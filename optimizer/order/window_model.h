// The mixed-integer program of one window, solved by GLPK.
//
// Minimise C; start s_i in [head_i, T - tail_i - p_i]; C >= s_i + p_i + tail_i;
// decided pairs s_j >= s_i + p_i; undecided ones of a stream by a binary x:
//   s_j >= s_i + p_i - M (1 - x),  s_i >= s_j + p_j - M' x,  M as small as
//   bounds allow.
// T is one less than the incumbent, so that whatever is found is an
// improvement.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "optimizer/order/pair_relaxation.h"

namespace reprise {

/// An order of the window's ops and the makespan it gives.
struct WindowOrder {
  std::vector<uint32_t> sequence;
  std::vector<int64_t> start;  ///< [op]
  int64_t makespan = 0;
};

struct WindowSolution {
  std::optional<WindowOrder> best;
  bool proved = false;
  uint64_t nodes = 0;
};

/// `graph` holds the window's ops alone, `state` its propagated heads, tails
/// and decisions under makespan T = `target`. Every GLPK object is created and
/// deleted in this call.
WindowSolution solve_window(const OrderGraph& graph,
                            const PairRelaxation& state, int64_t target,
                            uint64_t node_limit);

}  // namespace reprise
