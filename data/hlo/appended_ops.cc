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
                              std::vector<InstructionId> operands,
                              Shape shape) {
  Instruction step;
  step.opcode = opcode;
  step.shape = std::move(shape);
  step.operands = std::move(operands);
  return append(std::move(step));
}

InstructionId AppendedOps::compare(std::string_view direction, InstructionId a,
                                   InstructionId b) {
  Instruction step;
  step.opcode = Opcode::kCompare;
  step.shape = shape_of(a);
  step.shape.type = PrimitiveType::kPred;
  step.operands = {a, b};
  step.attributes = {{"direction", RawText{std::string(direction)}}};
  return append(std::move(step));
}

InstructionId AppendedOps::number(double value, Shape shape) {
  Instruction constant;
  constant.opcode = Opcode::kConstant;
  constant.shape.type = shape.type;
  constant.literal = fmt::format("{}", value);
  const InstructionId one = append(std::move(constant));
  if (shape.dimensions.empty()) return one;
  Instruction broadcast;
  broadcast.opcode = Opcode::kBroadcast;
  broadcast.shape = std::move(shape);
  broadcast.operands = {one};
  broadcast.attributes = {{"dimensions", std::vector<int64_t>{}}};
  return append(std::move(broadcast));
}

}  // namespace reprise
