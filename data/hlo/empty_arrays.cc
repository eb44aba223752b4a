#include "data/hlo/empty_arrays.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace reprise {
namespace {

InstructionId append(Instruction instruction, Computation* entry) {
  entry->instructions.push_back(std::move(instruction));
  return InstructionId{static_cast<uint32_t>(entry->instructions.size() - 1)};
}

/// The scalar `value` everywhere.
Instruction broadcast(const Instruction& of, InstructionId value) {
  Instruction filled;
  filled.name = of.name;
  filled.opcode = Opcode::kBroadcast;
  filled.shape = of.shape;
  filled.operands = {value};
  filled.attributes.push_back({"dimensions", std::vector<int64_t>{}});
  if (const Attribute* metadata = of.find_attribute("metadata"))
    filled.attributes.push_back(*metadata);
  return filled;
}

Instruction zero(const Instruction& of, PrimitiveType type) {
  Instruction constant;
  constant.name = of.name + "/zero";
  constant.opcode = Opcode::kConstant;
  constant.shape.type = type;
  constant.literal = "0";
  return constant;
}

/// The operand as it is, under the name of what does nothing to it.
Instruction copy(const Instruction& of, InstructionId operand) {
  Instruction same;
  same.name = of.name;
  same.opcode = Opcode::kCopy;
  same.shape = of.shape;
  same.operands = {operand};
  return same;
}

std::optional<InstructionId> append_concatenated(Instruction concatenate,
                                                 Computation* entry) {
  std::erase_if(concatenate.operands, [&](InstructionId operand) {
    return is_empty_array(entry->at(operand).shape);
  });
  if (concatenate.operands.size() == 1)
    return append(copy(concatenate, concatenate.operands[0]), entry);
  return append(std::move(concatenate), entry);
}

InstructionId append_reshape(const Instruction& of, const char* part,
                             InstructionId operand, const Shape& shape,
                             Computation* entry) {
  Instruction reshape = copy(of, operand);
  reshape.name += part;
  reshape.opcode = Opcode::kReshape;
  reshape.shape = shape;
  return append(std::move(reshape), entry);
}

void set_list(const char* name, std::vector<int64_t> list,
              Instruction* instruction) {
  std::erase_if(instruction->attributes, [&](const Attribute& attribute) {
    return attribute.name == name;
  });
  instruction->attributes.push_back({name, std::move(list)});
}

/// A scatter whose index vectors name no dimension, as `x.at[:].add(y)` is:
/// they name the first, and are 0. An array without dimensions is one of one
/// element meanwhile.
std::optional<InstructionId> append_indexed(Instruction scatter,
                                            Computation* entry) {
  Shape indices = entry->at(scatter.operands[1]).shape;
  const std::vector<int64_t> vector = integer_list(scatter, "index_vector_dim");
  if (vector.size() != 1 || vector[0] < 0 ||
      vector[0] >= std::ssize(indices.dimensions))
    return std::nullopt;
  indices.dimensions[static_cast<size_t>(vector[0])] = 1;
  if (is_empty_array(indices)) return std::nullopt;
  const Shape whole = scatter.shape;
  if (whole.dimensions.empty()) {
    scatter.shape.dimensions = {1};
    scatter.operands[0] = append_reshape(scatter, "/one", scatter.operands[0],
                                         scatter.shape, entry);
    set_list("inserted_window_dims", {0}, &scatter);
  }
  Instruction zeros =
      broadcast(scatter, append(zero(scatter, indices.type), entry));
  zeros.name += "/zeros";
  zeros.shape = std::move(indices);
  scatter.operands[1] = append(std::move(zeros), entry);
  set_list("scatter_dims_to_operand_dims", {0}, &scatter);
  if (!whole.dimensions.empty()) return append(std::move(scatter), entry);
  const Instruction named = scatter;
  scatter.name += "/scattered";
  const InstructionId scattered = append(std::move(scatter), entry);
  return append_reshape(named, "", scattered, whole, entry);
}

}  // namespace

bool is_empty_array(const Shape& shape) {
  return shape.is_array() && element_count(shape) == 0;
}

std::optional<InstructionId> append_without_empty(
    const Instruction& instruction, Computation* entry) {
  const auto& operands = instruction.operands;
  const auto is_empty = [&](size_t i) {
    return i < operands.size() && is_empty_array(entry->at(operands[i]).shape);
  };
  bool any = false;
  for (size_t i = 0; i < operands.size(); ++i) any = any || is_empty(i);
  if (!any || !instruction.shape.is_array() ||
      is_empty_array(instruction.shape))
    return std::nullopt;
  switch (instruction.opcode) {
    case Opcode::kDot:
    case Opcode::kConvolution: {
      const InstructionId nothing =
          append(zero(instruction, instruction.shape.type), entry);
      return append(broadcast(instruction, nothing), entry);
    }
    case Opcode::kReduce:
    case Opcode::kPad:
      if (!is_empty(0) || operands.size() != 2) return std::nullopt;
      return append(broadcast(instruction, operands[1]), entry);
    case Opcode::kConcatenate:
      return append_concatenated(instruction, entry);
    case Opcode::kDynamicUpdateSlice:
      if (!is_empty(1)) return std::nullopt;
      return append(copy(instruction, operands[0]), entry);
    case Opcode::kScatter:
      if (operands.size() != 3) return std::nullopt;
      return is_empty(2) ? append(copy(instruction, operands[0]), entry)
                         : append_indexed(instruction, entry);
    default:
      return std::nullopt;
  }
}

}  // namespace reprise
