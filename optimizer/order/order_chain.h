// One chain of the order search: its incumbent, its priorities, its random
// numbers.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "optimizer/order/list_schedule.h"
#include "optimizer/order/order_graph.h"

namespace reprise {

struct ChainCounts {
  uint64_t evaluations = 0, windows_solved = 0, windows_improved = 0;
};

class OrderChain {
 public:
  OrderChain(const OrderGraph& graph, OrderSolution start, uint64_t seed);

  /// Local search on priorities: moves one op before or after another, keeps
  /// what is not longer.
  void search_priorities(uint64_t evaluations);
  /// Local search on the sequence: drifts along plateaus that priorities cannot
  /// express (delays).
  void drift(uint64_t evaluations);
  /// Exact windows over the whole sequence, left to right from a random offset,
  /// repeated while one improves and the budget lasts.
  void improve_windows(uint32_t window_ops, uint64_t evaluations);

  const OrderSolution& best() const { return best_; }
  const ChainCounts& counts() const { return counts_; }
  /// Leaves its solution for a random neighbour of it, to come down elsewhere.
  void kick();
  /// Goes on from a better solution of another chain.
  void adopt(const OrderSolution& better);

 private:
  uint32_t random_below(uint64_t bound);

  const OrderGraph* graph_;
  OrderSolution best_;
  std::vector<int64_t> priority_;
  ListScheduler scheduler_;
  int64_t priority_makespan_ = 0;  ///< Of the list schedule of `priority_`.
  std::mt19937_64 random_;
  ChainCounts counts_;
};

}  // namespace reprise
