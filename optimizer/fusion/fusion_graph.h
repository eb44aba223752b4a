// The ops of a program in groups, as operator fusion edits them: which groups
// read which, what lies between, what a merge would write. Views are folded
// away (data/plan/op_graph.h).
#pragma once

#include <cstdint>
#include <vector>

#include "data/plan/op_graph.h"
#include "data/plan/unit_graph.h"

namespace reprise {

/// A group of kernel ops, a dot with its epilogue, or a collective, which no
/// group may hold.
struct FusionNode {
  std::vector<InstructionId> ops;  ///< Ascending.
  bool alive = true;
  bool is_kernel = false;
  bool is_dot = false;  ///< A dot, alone or with what follows it.
  std::vector<uint32_t> before, after;  ///< Neighbouring nodes, ascending.
  std::vector<uint64_t> waits_for;      ///< Bits of collectives it depends on.
  bool feeds_collective = false;
  /// A program output, or read by a dot or collective.
  bool read_outside = false;
};

class FusionGraph {
 public:
  explicit FusionGraph(const OpGraph& graph);

  const std::vector<FusionNode>& nodes() const { return nodes_; }
  const OpGraph& ops() const { return *graph_; }
  /// Makes one node of two; its id is returned and the two die. Requires:
  /// `is_convex`.
  uint32_t merge(uint32_t a, uint32_t b);
  /// No third node lies on a path between the two. Cost: O(edges behind them).
  bool is_convex(uint32_t a, uint32_t b) const;
  /// Values of the ops that something else reads or the program returns,
  /// ascending.
  std::vector<InstructionId> outputs_of(
      const std::vector<InstructionId>& ops) const;
  /// Other kernel nodes that read a value this one reads from memory,
  /// ascending.
  std::vector<uint32_t> siblings(uint32_t node) const;

 private:
  void add_nodes();
  void connect();
  void connect_input(uint32_t id, InstructionId value);
  bool reaches(uint32_t from, uint32_t to) const;

  const OpGraph* graph_;
  std::vector<FusionNode> nodes_;
  std::vector<uint32_t> node_of_;          ///< [op] its alive node, or kNone.
  mutable std::vector<uint32_t> visited_;  ///< [node] mark of the last search.
  mutable uint32_t mark_ = 0;
};

}  // namespace reprise
