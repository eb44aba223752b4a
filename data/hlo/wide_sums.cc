#include "data/hlo/wide_sums.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "data/hlo/appended_ops.h"
#include "data/hlo/combiner.h"
#include "data/hlo/hlo.h"
#include "data/narrow_type.h"

namespace reprise {
namespace {

bool combines_ranks(const Instruction& instruction) {
  return instruction.opcode == Opcode::kAllReduce ||
         instruction.opcode == Opcode::kReduceScatter;
}

/// What ranks send for a type, which may be the type.
using Sent = PrimitiveType (*)(PrimitiveType);

PrimitiveType sent_of_bf16(PrimitiveType type) {
  return type == PrimitiveType::kBF16 ? PrimitiveType::kF32 : type;
}

PrimitiveType sent_of_narrow(PrimitiveType type) {
  const NarrowType* narrow = narrow_type(type);
  if (narrow == nullptr) return type;
  if (narrow->holding != PrimitiveType::kBF16) return narrow->holding;
  return narrow->format.has_sign ? PrimitiveType::kF16 : PrimitiveType::kF32;
}

void widen(Sent sent, Shape* shape) {
  shape->type = sent(shape->type);
  for (Shape& element : shape->elements) widen(sent, &element);
}

bool is_wider(Sent sent, const Shape& shape) {
  Shape wide = shape;
  widen(sent, &wide);
  return wide != shape;
}

class SumWidener {
 public:
  /// `reducers`: by computation, whether what it combines is sent wider.
  SumWidener(Sent sent, const std::vector<bool>& reducers,
             Computation* computation)
      : sent_(sent), reducers_(reducers), computation_(*computation) {}

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
      is_sum_.push_back(is_widened(one));
    // Of a tuple elements alone are read.
    for (const Instruction& reader : computation_.instructions) {
      if (picked_element(reader)) continue;
      for (const InstructionId operand : reader.operands) leave_tuple(operand);
    }
    leave_tuple(computation_.root);
  }

  bool is_widened(const Instruction& one) const {
    const std::optional<ComputationId> reducer =
        called_computation(one, "to_apply");
    return combines_ranks(one) && reducer && reducers_[index_of(*reducer)] &&
           is_wider(sent_, one.shape);
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
      widen(sent_, &placed.shape);
      for (InstructionId& operand : placed.operands)
        operand = converted(&steps, operand,
                            sent_(computation_.at(operand).shape.type));
    }
    const bool is_picked =
        picked_element(instruction) &&
        is_sum_[index_of(instruction.operands[0])] &&
        old[index_of(instruction.operands[0])].shape.is_tuple();
    const PrimitiveType type = instruction.shape.type;
    if (is_picked) widen(sent_, &placed.shape);
    const InstructionId made = steps.append(std::move(placed));
    now_.push_back(is_sum || is_picked ? converted(&steps, made, type) : made);
  }

  InstructionId converted(AppendedOps* steps, InstructionId from,
                          PrimitiveType type) {
    Shape shape = computation_.at(from).shape;
    if (shape.type == type) return from;
    shape.type = type;
    return steps->op(Opcode::kConvert, {from}, std::move(shape));
  }

  const Sent sent_;
  const std::vector<bool>& reducers_;
  Computation& computation_;
  std::vector<bool> is_sum_;        ///< [old id]
  std::vector<InstructionId> now_;  ///< [old id]
};

using Callers = std::vector<const Instruction*>;

/// [computation] who reduces by it.
std::vector<Callers> callers_of_reducers(const Module& module) {
  std::vector<Callers> callers(module.computations.size());
  for (const Computation& computation : module.computations) {
    for (const Instruction& one : computation.instructions) {
      const std::optional<ComputationId> reducer =
          called_computation(one, "to_apply");
      if (reducer) callers[index_of(*reducer)].push_back(&one);
    }
  }
  return callers;
}

void widen_parts(Sent sent, const std::vector<bool>& reducers, Module* module) {
  for (const ComputationId part : program_parts(*module))
    SumWidener(sent, reducers, &module->computations[index_of(part)]).run();
}

}  // namespace

void sum_in_f32(Module* module) {
  std::vector<bool> adds;
  for (const Callers& callers : callers_of_reducers(*module)) {
    adds.push_back(!callers.empty() &&
                   combining_opcode(*module, *callers[0]) == Opcode::kAdd);
  }
  widen_parts(sent_of_bf16, adds, module);
}

void combine_in_wider_types(Module* module) {
  std::vector<bool> combines;
  for (const Callers& callers : callers_of_reducers(*module)) {
    const bool is_sent = std::all_of(
        callers.begin(), callers.end(), [&](const Instruction* caller) {
          return combines_ranks(*caller) &&
                 is_wider(sent_of_narrow, caller->shape) &&
                 combining_opcode(*module, *caller);
        });
    combines.push_back(is_sent && !callers.empty());
  }
  widen_parts(sent_of_narrow, combines, module);
  for (size_t i = 0; i < combines.size(); ++i) {
    if (!combines[i]) continue;
    for (Instruction& step : module->computations[i].instructions)
      widen(sent_of_narrow, &step.shape);
  }
}

bool sums_in_f32(const Module& module) {
  return has_note(module.attributes, "reprise_sums=\"f32\"");
}

}  // namespace reprise
