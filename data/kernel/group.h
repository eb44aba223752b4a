// The ops of a kernel as lowering sees them: which are members, and what kind
// of reduction each reduce is.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/hlo/module.h"
#include "data/kernel/index_expression.h"
#include "data/result.h"

namespace reprise {

/// Types that kernels load, compute and store.
bool is_kernel_type(PrimitiveType type);

/// True if an elementwise op is defined for operands of this type; the type is
/// that of the first operand, for select of the second.
bool is_computable(Opcode opcode, PrimitiveType type);

/// How a reduce runs (see the numerics contract in kernel.h).
enum class ReduceKind {
  /// The minor dimension is reduced: lanes, result after a phase of its row.
  kByLanes,
  /// The minor dimension is kept, or each sum rounds to 16 bits: accumulated in
  /// the output.
  kSequential,
  kUnrolled,  ///< Sequential over so few elements that it is written out.
};

/// A minor dimension reduced over so few elements, all dimensions together, is
/// written out; kSumWindow of them where each sum rounds to 16 bits.
inline constexpr int64_t kShortRow = 8;

struct ReduceSpec {
  ReduceKind kind = ReduceKind::kByLanes;
  bool rows = true;  ///< The minor dimension is reduced.
  Opcode combine = Opcode::kAdd;
  std::vector<bool> reduced;             ///< By operand dimension.
  std::vector<int64_t> reduced_extents;  ///< In operand order.
};

class Group {
 public:
  Group(const Module& module, std::span<const InstructionId> ops,
        std::span<const InstructionId> outputs);

  const Module& module() const { return module_; }
  const Computation& computation() const { return computation_; }
  const Instruction& at(InstructionId id) const { return computation_.at(id); }
  /// Non-view ops and materialized view outputs, ascending.
  const std::vector<InstructionId>& members() const { return members_; }
  const std::vector<InstructionId>& outputs() const { return outputs_; }
  bool contains(InstructionId id) const;
  bool is_output(InstructionId id) const;

 private:
  const Module& module_;
  const Computation& computation_;
  std::vector<InstructionId> members_;
  std::vector<InstructionId> outputs_;
};

/// Errors: kUnsupported for variadic reduces and computations that are not one
/// binary op.
Result<ReduceSpec> reduce_spec(const Group& group, const Instruction& reduce);

/// Shape of a single-array operand.
inline const Shape& operand_shape(const Group& group,
                                  const Instruction& instruction,
                                  size_t operand) {
  return group.at(instruction.operands[operand]).shape;
}

/// Index map of the operand of an op that only moves elements (broadcast,
/// reshape, bitcast, transpose, reverse, opt-barrier); nothing for other ops.
std::optional<IndexMap> moved_map(const Group& group, IndexTable& indices,
                                  const Instruction& instruction,
                                  const IndexMap& map);

/// Bits of one element of `type`, zero-extended, from its HLO text ("1.5",
/// "-inf", "true").
uint64_t literal_bits(PrimitiveType type, const std::string& text);
/// The same from an integer.
uint64_t integer_bits(PrimitiveType type, int64_t value);
/// Value that leaves `combine` unchanged.
uint64_t identity_bits(Opcode combine, PrimitiveType type);

}  // namespace reprise
