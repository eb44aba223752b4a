// One pass counts who reads what, a second rewrites sums and drops the products
// that they took in.
#include "data/hlo/contract_products.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "data/hlo/opcode.h"
#include "data/hlo/repeated_products.h"

namespace reprise {
namespace {

/// Of a loop that LLVM unrolls.
constexpr int64_t kMostTableRows = 10, kMostTableElements = 64;

/// [instruction] Small arrays that come of constants and counts alone.
std::vector<bool> tables_of(const Computation& computation) {
  std::vector<bool> known(computation.instructions.size());
  for (size_t i = 0; i < known.size(); ++i) {
    const Instruction& op = computation.instructions[i];
    const bool passes_on = runs_elementwise(op.opcode) ||
                           is_reshape(op.opcode) ||
                           op.opcode == Opcode::kBroadcast;
    known[i] = op.opcode == Opcode::kConstant || op.opcode == Opcode::kIota ||
               (passes_on &&
                std::ranges::all_of(op.operands, [&](InstructionId operand) {
                  return known[index_of(operand)];
                }));
  }
  for (size_t i = 0; i < known.size(); ++i) {
    const Shape& shape = computation.instructions[i].shape;
    known[i] = known[i] && shape.is_array() && !shape.dimensions.empty() &&
               shape.dimensions[0] <= kMostTableRows &&
               element_count(shape) <= kMostTableElements;
  }
  return known;
}

class Contractor {
 public:
  Contractor(const Module& module, bool again, Computation* computation)
      : computation_(*computation),
        uses_(use_counts(*computation)),
        left_(uses_),
        half_(
            !has_note(module.attributes, "reprise_half_products=\"rounded\"")) {
    if (again) repeated_.emplace(module, *computation);
    rounded_ = has_note(module.attributes, "reprise_tables=\"rounded\"")
                   ? tables_of(*computation)
                   : std::vector<bool>(uses_.size());
  }

  void run() {
    for (size_t i = 0; i < computation_.instructions.size(); ++i) {
      Instruction& sum = computation_.instructions[i];
      if (!(sum.opcode == Opcode::kAdd || sum.opcode == Opcode::kSubtract) ||
          !takes_products(sum.shape.type) || rounded_[i])
        continue;
      const auto id = static_cast<InstructionId>(i);
      if (takes(id, sum.operands[0])) {
        take_left(&sum);
      } else if (takes(id, sum.operands[1])) {
        take_right(&sum);
      }
    }
    drop_instructions(taken(), &computation_);
  }

 private:
  bool takes_products(PrimitiveType type) const {
    return type == PrimitiveType::kF32 || type == PrimitiveType::kF64 ||
           (half_ && type == PrimitiveType::kF16);
  }

  /// A product that the sum which reads it may take: one that waits for nothing
  /// but its factors.
  bool takes(InstructionId sum, InstructionId id) const {
    const Instruction& product = computation_.at(id);
    if (product.opcode != Opcode::kMultiply ||
        product.shape.type != computation_.at(sum).shape.type ||
        has_control_predecessors(product))
      return false;
    return uses_[index_of(id)] == 1 ||
           (repeated_ && repeated_->is_alone(id, sum));
  }

  void take_left(Instruction* sum) {
    const InstructionId product = sum->operands[0], other = sum->operands[1];
    take(product, other, sum);
    sum->opcode = sum->opcode == Opcode::kAdd ? Opcode::kMultiplyAdd
                                              : Opcode::kMultiplySubtract;
  }

  void take_right(Instruction* sum) {
    const InstructionId product = sum->operands[1], other = sum->operands[0];
    take(product, other, sum);
    sum->opcode = sum->opcode == Opcode::kAdd ? Opcode::kMultiplyAdd
                                              : Opcode::kNegatedMultiplyAdd;
  }

  void take(InstructionId product, InstructionId other, Instruction* sum) {
    --left_[index_of(product)];
    sum->operands = computation_.at(product).operands;
    sum->operands.push_back(other);
    sum->opcode_text.clear();
  }

  /// [instruction] Was read, and is part of all sums that did.
  std::vector<bool> taken() const {
    std::vector<bool> taken(uses_.size());
    for (size_t i = 0; i < taken.size(); ++i)
      taken[i] = uses_[i] > 0 && left_[i] == 0;
    return taken;
  }

  Computation& computation_;
  const std::vector<uint32_t> uses_;  ///< [instruction] How often it is read.
  std::vector<uint32_t> left_;        ///< [instruction] How often it still is.
  std::optional<RepeatedProducts> repeated_;
  std::vector<bool> rounded_;  ///< [instruction] Takes no product.
  const bool half_;            ///< Of f16, too.
};

}  // namespace

void contract_products(const Module& module, bool again,
                       Computation* computation) {
  Contractor(module, again, computation).run();
}

bool is_contracted(Opcode opcode) {
  return opcode == Opcode::kMultiplyAdd ||
         opcode == Opcode::kMultiplySubtract ||
         opcode == Opcode::kNegatedMultiplyAdd;
}

Instruction contracted_product(const Instruction& contracted) {
  Instruction product = contracted;
  product.opcode = Opcode::kMultiply;
  product.name += ".product";
  product.operands.pop_back();
  return product;
}

Instruction contracted_sum(const Instruction& contracted,
                           InstructionId product) {
  Instruction sum = contracted;
  sum.opcode = contracted.opcode == Opcode::kMultiplyAdd ? Opcode::kAdd
                                                         : Opcode::kSubtract;
  sum.operands = {product, contracted.operands[2]};
  if (contracted.opcode == Opcode::kNegatedMultiplyAdd)
    std::swap(sum.operands[0], sum.operands[1]);
  return sum;
}

}  // namespace reprise
