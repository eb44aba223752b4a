// The abstract ordering problem: ops on streams, each stream runs one op at a
// time, precedence between ops, minimise the makespan. What the plan's order
// becomes when durations are held fixed; knows nothing of programs.
//
// Times are integers in any unit. Graphs are immutable and safe to share
// between threads.
#pragma once

#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <boost/range/iterator_range.hpp>
#include <cstdint>
#include <utility>
#include <vector>

#include "data/result.h"

namespace reprise {

struct OrderInstance {
  uint32_t streams = 2;
  std::vector<uint32_t> stream;   ///< [op]
  std::vector<int64_t> duration;  ///< [op], >= 0.
  /// (before, after).
  std::vector<std::pair<uint32_t, uint32_t>> dependencies;
};

/// A checked instance with its adjacency both ways and its heads and tails.
class OrderGraph {
 public:
  using Csr =
      boost::compressed_sparse_row_graph<boost::directedS, boost::no_property,
                                         boost::no_property, boost::no_property,
                                         uint32_t, uint32_t>;

  /// Errors: kInvalid for a cycle, an op or stream out of range, a negative
  /// duration, or times whose sum overflows.
  static Result<OrderGraph> make(OrderInstance instance);

  /// The same instance backwards in time.
  OrderGraph mirrored() const;

  uint32_t size() const {
    return static_cast<uint32_t>(instance_.stream.size());
  }
  uint32_t streams() const { return instance_.streams; }
  uint32_t stream(uint32_t op) const { return instance_.stream[op]; }
  int64_t duration(uint32_t op) const { return instance_.duration[op]; }
  const OrderInstance& instance() const { return instance_; }

  auto predecessors(uint32_t op) const {
    return boost::make_iterator_range(boost::adjacent_vertices(op, backward_));
  }
  auto successors(uint32_t op) const {
    return boost::make_iterator_range(boost::adjacent_vertices(op, forward_));
  }
  /// Predecessors first; the smallest id among the ready ones comes next.
  const std::vector<uint32_t>& topological() const { return topological_; }
  /// Longest path before an op's start and after its end, streams ignored.
  const std::vector<int64_t>& heads() const { return heads_; }
  const std::vector<int64_t>& tails() const { return tails_; }

 private:
  Status sort();
  void measure();

  OrderInstance instance_;
  Csr forward_, backward_;
  std::vector<uint32_t> topological_;
  std::vector<int64_t> heads_, tails_;
};

/// A solution: ops in a topological order, each stream runs its subsequence.
struct OrderSolution {
  std::vector<uint32_t> sequence;
  std::vector<int64_t> start;  ///< [op]
  int64_t makespan = 0;
};

/// Earliest starts of a topological sequence. Cost: O(ops + dependencies).
OrderSolution evaluate_sequence(const OrderGraph& graph,
                                std::vector<uint32_t> sequence);

}  // namespace reprise
