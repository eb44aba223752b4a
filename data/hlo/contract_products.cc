// One pass counts who reads what, a second rewrites sums and drops the products
// that they took in.
#include "data/hlo/contract_products.h"

#include <algorithm>
#include <utility>

namespace reprise {
namespace {

class Contractor {
 public:
  Contractor(Computation* computation, bool half)
      : computation_(*computation),
        uses_(use_counts(*computation)),
        taken_(computation->instructions.size(), false),
        half_(half) {}

  void run() {
    for (Instruction& sum : computation_.instructions) {
      if (!(sum.opcode == Opcode::kAdd || sum.opcode == Opcode::kSubtract) ||
          !takes_products(sum.shape.type))
        continue;
      if (is_only_here(sum.operands[0], sum.shape.type)) {
        take_left(&sum);
      } else if (is_only_here(sum.operands[1], sum.shape.type)) {
        take_right(&sum);
      }
    }
    drop_instructions(taken_, &computation_);
  }

 private:
  bool takes_products(PrimitiveType type) const {
    return type == PrimitiveType::kF32 || type == PrimitiveType::kF64 ||
           (half_ && type == PrimitiveType::kF16);
  }

  /// A product that the sum which reads it may take: one that waits for nothing
  /// but its factors.
  bool is_only_here(InstructionId id, PrimitiveType type) const {
    const Instruction& product = computation_.at(id);
    return product.opcode == Opcode::kMultiply && product.shape.type == type &&
           uses_[index_of(id)] == 1 && !has_control_predecessors(product);
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
    taken_[index_of(product)] = true;
    sum->operands = computation_.at(product).operands;
    sum->operands.push_back(other);
    sum->opcode_text.clear();
  }

  Computation& computation_;
  std::vector<uint32_t> uses_;  ///< [instruction] How often it is read.
  std::vector<bool> taken_;     ///< [instruction] Part of a sum from now on.
  const bool half_;             ///< Of f16, too.
};

}  // namespace

void contract_products(Computation* computation, bool half) {
  Contractor(computation, half).run();
}

bool contracts_half(const Module& module) {
  return !has_note(module.attributes, "reprise_half_products=\"rounded\"");
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
