// The sum itself becomes the scatter, since all that both read stands before
// it.
#include "data/hlo/scatter_sums.h"

#include <algorithm>

#include "data/hlo/combiner.h"
#include "data/hlo/hlo.h"

namespace reprise {
namespace {

bool is_zero(const Computation& computation, InstructionId id) {
  const Instruction* made = &computation.at(id);
  while (made->opcode == Opcode::kBroadcast || made->opcode == Opcode::kReshape)
    made = &computation.at(made->operands[0]);
  return integer_constant(*made) == 0;
}

}  // namespace

bool scatter_into_sums(const Module& module, Computation* computation,
                       bool keeps_rounding) {
  const std::vector<uint32_t> uses = use_counts(*computation);
  std::vector<bool> taken(computation->instructions.size(), false);
  const auto may_go = [&](InstructionId id) {
    const Instruction& scatter = computation->at(id);
    return scatter.opcode == Opcode::kScatter && scatter.operands.size() == 3 &&
           !(keeps_rounding && scatter.shape.type == PrimitiveType::kBF16) &&
           uses[index_of(id)] == 1 && !has_control_predecessors(scatter) &&
           combining_opcode(module, scatter) == Opcode::kAdd &&
           is_zero(*computation, scatter.operands[0]);
  };
  for (Instruction& sum : computation->instructions) {
    if (sum.opcode != Opcode::kAdd) continue;
    const auto found =
        std::find_if(sum.operands.begin(), sum.operands.end(), may_go);
    if (found == sum.operands.end()) continue;
    const Instruction& scatter = computation->at(*found);
    const InstructionId other =
        sum.operands[found == sum.operands.begin() ? 1 : 0];
    taken[index_of(*found)] = true;
    sum.opcode = scatter.opcode;
    sum.operands = {other, scatter.operands[1], scatter.operands[2]};
    for (const Attribute& attribute : scatter.attributes) {
      if (sum.find_attribute(attribute.name) == nullptr)
        sum.attributes.push_back(attribute);
    }
  }
  const bool any = std::find(taken.begin(), taken.end(), true) != taken.end();
  if (any) drop_instructions(taken, computation);
  return any;
}

}  // namespace reprise
