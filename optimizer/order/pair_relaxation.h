// What must hold of every order whose makespan is at most T: which pairs of one
// stream are decided, how late and how early each op may be. The engine of the
// destructive bound.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "optimizer/order/order_bounds.h"
#include "optimizer/order/order_graph.h"

namespace reprise {

class PairRelaxation {
 public:
  PairRelaxation(const OrderGraph& graph, int64_t makespan);
  /// With heads and tails that know more than the graph (a window of a longer
  /// sequence).
  PairRelaxation(const OrderGraph& graph, int64_t makespan,
                 std::vector<int64_t> heads, std::vector<int64_t> tails);

  /// Decides before -> after with its closure. False when the opposite is
  /// decided already.
  bool add(uint32_t before, uint32_t after);
  /// Grows heads, tails and decisions to their fixed point. False: no such
  /// order exists.
  bool propagate();

  bool is_before(uint32_t a, uint32_t b) const { return test(after_, a, b); }
  bool is_undecided(uint32_t a, uint32_t b) const {
    return !is_before(a, b) && !is_before(b, a);
  }
  int64_t head(uint32_t op) const { return heads_[op]; }
  int64_t tail(uint32_t op) const { return tails_[op]; }
  /// Undecided pairs of one stream, in ascending order.
  std::vector<std::pair<uint32_t, uint32_t>> undecided_pairs() const;

 private:
  using Rows = std::vector<uint64_t>;  ///< [op][op] bits.

  bool test(const Rows& rows, uint32_t row, uint32_t column) const {
    return (rows[size_t{row} * words_ + column / 64] >> (column % 64)) & 1;
  }
  void sort_by_depth();
  bool grow_heads();
  bool grow_tails();
  int64_t set_bound(const Rows& rows, uint32_t op,
                    const std::vector<int64_t>& release);
  bool select_pairs(bool& changed);

  const OrderGraph* graph_;
  int64_t makespan_;
  size_t words_;
  Rows before_, after_;  ///< Row op: who is before it, who is after it.
  std::vector<int64_t> heads_, tails_;
  /// A topological order of all decisions.
  std::vector<uint32_t> depth_order_;
  std::vector<std::pair<int64_t, int64_t>> scratch_;  ///< (release, duration)
};

}  // namespace reprise
