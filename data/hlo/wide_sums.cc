#include "data/hlo/wide_sums.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "data/hlo/appended_ops.h"
#include "data/hlo/combiner.h"
#include "data/hlo/hlo.h"

namespace reprise {
namespace {

bool is_rounding_sum(const Module& module, const Instruction& instruction) {
  const bool reduces = instruction.opcode == Opcode::kAllReduce ||
                       instruction.opcode == Opcode::kReduceScatter;
  const std::vector<Shape>& elements = instruction.shape.elements;
  return reduces &&
         (is_half(instruction.shape.type) ||
          std::any_of(elements.begin(), elements.end(),
                      [](const Shape& one) { return is_half(one.type); })) &&
         combining_opcode(module, instruction) == Opcode::kAdd;
}

class SumWidener {
 public:
  SumWidener(const Module& module, Computation* computation)
      : module_(module), computation_(*computation) {}

  void run() {
    find_sums();
    if (std::find(is_sum_.begin(), is_sum_.end(), true) == is_sum_.end())
      return;
    const std::vector<Instruction> old = std::move(computation_.instructions);
    computation_.instructions.clear();
    for (const Instruction& instruction : old) place(old, instruction);
    computation_.root = now_[index_of(computation_.root)];
  }

 private:
  void find_sums() {
    for (const Instruction& one : computation_.instructions)
      is_sum_.push_back(is_rounding_sum(module_, one));
    // Of a tuple elements alone are read.
    for (const Instruction& reader : computation_.instructions) {
      if (picked_element(reader)) continue;
      for (const InstructionId operand : reader.operands) leave_tuple(operand);
    }
    leave_tuple(computation_.root);
  }

  void leave_tuple(InstructionId id) {
    if (computation_.at(id).shape.is_tuple()) is_sum_[index_of(id)] = false;
  }

  void place(const std::vector<Instruction>& old,
             const Instruction& instruction) {
    AppendedOps steps(instruction, 'w', &computation_.instructions);
    Instruction placed = instruction;
    renumber_references(now_, &placed);
    const bool is_sum = is_sum_[now_.size()];
    if (is_sum) {
      widen(&placed.shape);
      for (InstructionId& operand : placed.operands) {
        if (is_half(computation_.at(operand).shape.type))
          operand = converted(&steps, operand, PrimitiveType::kF32);
      }
    }
    const bool is_picked =
        picked_element(instruction) &&
        is_sum_[index_of(instruction.operands[0])] &&
        old[index_of(instruction.operands[0])].shape.is_tuple();
    const PrimitiveType type = instruction.shape.type;
    if (is_picked) widen(&placed.shape);
    InstructionId made = steps.append(std::move(placed));
    if ((is_sum || is_picked) && is_half(type))
      made = converted(&steps, made, type);
    now_.push_back(made);
  }

  static void widen(Shape* shape) {
    if (is_half(shape->type)) shape->type = PrimitiveType::kF32;
    for (Shape& element : shape->elements) widen(&element);
  }

  InstructionId converted(AppendedOps* steps, InstructionId from,
                          PrimitiveType type) {
    Shape shape = computation_.at(from).shape;
    shape.type = type;
    return steps->op(Opcode::kConvert, {from}, std::move(shape));
  }

  const Module& module_;
  Computation& computation_;
  std::vector<bool> is_sum_;        ///< [old id]
  std::vector<InstructionId> now_;  ///< [old id]
};

}  // namespace

void sum_in_f32(Module* module) {
  for (const ComputationId part : program_parts(*module))
    SumWidener(*module, &module->computations[index_of(part)]).run();
}

bool sums_in_f32(const Module& module) {
  return has_note(module.attributes, "reprise_sums=\"f32\"");
}

}  // namespace reprise
