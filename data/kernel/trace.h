// Lowering, first half: follows what an output element needs, op by op, down to
// loads. Each op that is met at an index map becomes one node; the same op at
// the same map is the same node, so whatever a group shares is computed once.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "data/kernel/group.h"
#include "data/kernel/index_expression.h"
#include "data/kernel/kernel.h"

namespace reprise {

/// A value before it is placed in the loop nest. Operands are nodes; the source
/// of a load is a place in the kernel's list of sources.
struct Node {
  KernelValue value;
  uint64_t loops = 0;  ///< Loops which it depends on.
  int32_t level = 0;  ///< Phases of the row that end before it can be computed.
  int32_t weight = 0;                 ///< Cost of computing it from loads.
  std::vector<int32_t> index_values;  ///< Nodes inside its index expression.
};

/// Most phases of a row: sets of them are bits of a word.
inline constexpr int32_t kMaxLevel = 63;
/// Deepest nesting of ops and views that lowering follows, by recursion.
inline constexpr int32_t kMaxDepth = 2000;

/// The loops of one nest. Row loops stand outside; column loops are those which
/// lane reductions reduce, repeated once a phase.
struct NestSpace {
  struct Loop {
    int32_t id = 0;
    int64_t extent = 1;
    bool column = false;
  };
  std::vector<Loop> loops;  ///< Rows, then columns.
  uint64_t rows = 0, columns = 0;
};

class ElementTrace {
 public:
  /// `sources`: arrays read so far by the kernel; loads append theirs.
  ElementTrace(const Group& group, std::vector<InstructionId>& sources,
               IndexTable& indices, const NestSpace& space);

  /// Node of one element of an op. After an error (see status) the node means
  /// nothing.
  int32_t value(InstructionId id, const IndexMap& map);

  /// Where element `updates` of a scatter goes: the store's index and its
  /// guard.
  struct Target {
    int32_t index = -1, guard = -1;
  };
  Target scatter_target(const Instruction& scatter, const IndexMap& updates);

  /// First error since the last clear; kInfeasible means only that this nest
  /// cannot hold it.
  const Status& status() const { return status_; }
  void clear_status() { status_ = {}; }

  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<KernelAccumulator>& accumulators() const {
    return accumulators_;
  }
  /// Node accumulated by each accumulator.
  const std::vector<int32_t>& accumulated() const { return accumulated_; }
  /// Members computed here, each once.
  const std::vector<InstructionId>& computed() const { return computed_; }
  bool is_column(int32_t node) const {
    return (nodes_[static_cast<size_t>(node)].loops & space_.columns) != 0;
  }

 private:
  int32_t add_node(KernelValue value, uint64_t loops, int32_t level,
                   int32_t weight);
  int32_t literal(PrimitiveType type, uint64_t bits);
  int32_t index_node(PrimitiveType type, int32_t expression);
  int32_t apply(Opcode opcode, PrimitiveType type, int32_t a, int32_t b = -1,
                int32_t c = -1, const char* comparison = nullptr);
  int32_t load(InstructionId id, const IndexMap& map);
  int32_t total(Opcode combine, PrimitiveType type, int32_t operand);
  /// low <= expression <= high as a pred node, -1 when it always holds.
  int32_t within(int32_t expression, int64_t low, int64_t high);
  int32_t both(int32_t left, int32_t right);
  /// An integer node as an index, clamped.
  int32_t dynamic_index(int32_t node, int64_t low, int64_t high);
  void fail_with(ErrorKind kind, std::string message);

  int32_t trace_op(const Instruction& instruction, InstructionId id,
                   const IndexMap& map);
  int32_t trace_elementwise(const Instruction& instruction,
                            const IndexMap& map);
  /// The same bits as another type of the same width.
  int32_t bits_of(int32_t node, PrimitiveType type);
  /// A signed integer that is ordered as the float's bits are: all but the sign
  /// inverted where it is negative. Integers stay.
  int32_t total_order_key(int32_t node);
  int32_t trace_bitcast_convert(const Instruction& bitcast,
                                const IndexMap& map);
  int32_t trace_reduce_precision(const Instruction& reduce,
                                 const IndexMap& map);
  /// Float bits of `from` exponent bits, out of the range of `to`: infinity or
  /// zero.
  int32_t clamp_exponent(int32_t bits, PrimitiveType word, int mantissa,
                         int from, int to);
  int32_t trace_constant(const Instruction& constant, InstructionId id,
                         const IndexMap& map);
  int32_t trace_slice(const Instruction& slice, const IndexMap& map);
  int32_t trace_pad(const Instruction& pad, const IndexMap& map);
  int32_t trace_concatenate(const Instruction& concatenate,
                            const IndexMap& map);
  int32_t trace_dynamic_slice(const Instruction& slice, const IndexMap& map);
  int32_t trace_dynamic_update(const Instruction& update, const IndexMap& map);
  int32_t trace_gather(const Instruction& gather, const IndexMap& map);
  int32_t trace_reduce(const Instruction& reduce, const IndexMap& map);
  int32_t trace_lanes(const Instruction& reduce, const ReduceSpec& spec,
                      const IndexMap& map);
  /// Whether what stands at `map` depends on a loop, and not on one around it.
  bool is_made_again(const IndexMap& map) const;
  int32_t trace_unrolled(const Instruction& reduce, const ReduceSpec& spec,
                         const IndexMap& map);
  int32_t trace_dot(const Instruction& dot, const IndexMap& map);
  int32_t trace_window(const Instruction& window, const IndexMap& map);
  IndexMap start_vector(const Instruction& instruction, size_t first,
                        const Shape& shape, const std::vector<int64_t>& sizes);
  void note_values(Node& node);

  const Group& group_;
  std::vector<InstructionId>& sources_;
  IndexTable& indices_;
  const NestSpace& space_;
  Status status_;
  std::vector<Node> nodes_;
  std::vector<KernelAccumulator> accumulators_;
  std::vector<int32_t> accumulated_;
  std::vector<InstructionId> computed_;
  std::unordered_map<uint64_t, std::vector<std::pair<IndexMap, int32_t>>> memo_;
  std::unordered_map<uint64_t, std::vector<int32_t>> by_hash_;
  bool dynamic_ = false;  ///< Some expression contains a value.
  int32_t depth_ = 0;     ///< Calls of `value` under way.
  /// Elements of the rows being written out, all those under way together.
  int64_t written_out_ = 1;
};

}  // namespace reprise
