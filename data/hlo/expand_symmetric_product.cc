#include "data/hlo/expand_symmetric_product.h"

#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "data/hlo/attribute_reader.h"
#include "data/hlo/expansion_ops.h"
#include "data/hlo/matrix_operation.h"

namespace reprise {
namespace {

/// Square matrices of as many rows as one side of a's, the same batch.
bool fits(const Shape& a, size_t rows, const Shape& c) {
  const size_t rank = a.dimensions.size();
  if (rank < 2 || c.dimensions.size() != rank || is_complex(a.type))
    return false;
  std::vector<int64_t> square = a.dimensions;
  square[rank - 1] = square[rank - 2] = a.dimensions[rows];
  return c.dimensions == square;
}

}  // namespace

bool is_symmetric_product(const Instruction& instruction) {
  const std::string target = custom_call_target(instruction);
  return target == "cusolver_syrk_ffi" || target == "hipsolver_syrk_ffi";
}

std::optional<InstructionId> expand_symmetric_product(const Instruction& call,
                                                      Computation* to) {
  if (call.operands.size() != 4 || !call.shape.is_array()) return std::nullopt;
  ExpansionOps ops(call, &to->instructions);
  const Shape a = ops.shape(call.operands[0]);
  const bool turned =
      raw_text(call, "backend_config").find("transpose = true") !=
      std::string_view::npos;
  const size_t rank = a.dimensions.size();
  if (!fits(a, turned ? rank - 1 : rank - 2, call.shape) ||
      ops.shape(call.operands[1]).dimensions != call.shape.dimensions)
    return std::nullopt;
  const Shape shape = array_of(a.type, call.shape.dimensions);
  std::vector<int64_t> batch(rank - 2);
  std::iota(batch.begin(), batch.end(), 0);
  const std::vector<int64_t> summed{
      static_cast<int64_t>(turned ? rank - 2 : rank - 1)};
  std::vector<Attribute> by{{"lhs_contracting_dims", summed},
                            {"rhs_contracting_dims", summed}};
  if (!batch.empty()) {
    by.push_back({"lhs_batch_dims", batch});
    by.push_back({"rhs_batch_dims", batch});
  }
  const InstructionId square =
      ops.op(Opcode::kDot, {call.operands[0], call.operands[0]}, shape, by);
  const auto scaled = [&](InstructionId value, InstructionId by_scalar) {
    const InstructionId factor = ops.broadcast(by_scalar, {}, shape);
    return ops.op(Opcode::kMultiply, {factor, value}, shape);
  };
  Instruction sum;
  sum.name = call.name;
  sum.opcode = Opcode::kAdd;
  sum.shape = shape;
  sum.operands = {scaled(square, call.operands[2]),
                  scaled(call.operands[1], call.operands[3])};
  return ops.append(std::move(sum));
}

}  // namespace reprise
