#include "data/hlo/appended_ops.h"

#include <fmt/format.h>

#include <string>
#include <utility>

namespace reprise {

void renumber_references(const std::vector<InstructionId>& now,
                         Instruction* instruction) {
  for (InstructionId& operand : instruction->operands)
    operand = now[index_of(operand)];
  for (Attribute& attribute : instruction->attributes) {
    auto* ids = std::get_if<std::vector<InstructionId>>(&attribute.value);
    for (size_t i = 0; ids != nullptr && i < ids->size(); ++i)
      (*ids)[i] = now[index_of((*ids)[i])];
  }
}

void drop_unread(const std::function<bool(const Instruction&)>& may_go,
                 Computation* computation) {
  std::vector<uint32_t> uses = use_counts(*computation);
  std::vector<bool> dropped(uses.size(), false);
  for (size_t i = uses.size(); i-- > 0;) {
    const Instruction& op = computation->instructions[i];
    if (uses[i] > 0 || !may_go(op)) continue;
    dropped[i] = true;
    for (const InstructionId operand : op.operands) --uses[index_of(operand)];
  }
  drop_instructions(dropped, computation);
}

AppendedOps::AppendedOps(const Instruction& origin, char tag,
                         std::vector<Instruction>* to)
    : to_(*to), origin_(origin), tag_(tag) {}

InstructionId AppendedOps::append(Instruction step) {
  if (step.name.empty())
    step.name = fmt::format("{}/{}{}", origin_.name, tag_, to_.size());
  const Attribute* metadata = origin_.find_attribute("metadata");
  if (metadata != nullptr && step.find_attribute("metadata") == nullptr)
    step.attributes.push_back(*metadata);
  to_.push_back(std::move(step));
  return InstructionId{static_cast<uint32_t>(to_.size() - 1)};
}

InstructionId AppendedOps::op(Opcode opcode,
                              std::vector<InstructionId> operands, Shape shape,
                              std::vector<Attribute> attributes) {
  Instruction step;
  step.opcode = opcode;
  step.shape = std::move(shape);
  step.operands = std::move(operands);
  step.attributes = std::move(attributes);
  return append(std::move(step));
}

InstructionId AppendedOps::compare(std::string_view direction, InstructionId a,
                                   InstructionId b) {
  Shape shape = shape_of(a);
  shape.type = PrimitiveType::kPred;
  return op(Opcode::kCompare, {a, b}, std::move(shape),
            {{"direction", RawText{std::string(direction)}}});
}

InstructionId AppendedOps::number(double value, Shape shape) {
  Instruction constant;
  constant.opcode = Opcode::kConstant;
  constant.shape.type = shape.type;
  constant.literal = fmt::format("{}", value);
  const InstructionId one = append(std::move(constant));
  if (shape.dimensions.empty()) return one;
  return op(Opcode::kBroadcast, {one}, std::move(shape),
            {{"dimensions", std::vector<int64_t>{}}});
}

}  // namespace reprise
