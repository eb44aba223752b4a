#include "data/hlo/expansion_ops.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <utility>

namespace reprise {

ComputationId RebuiltModule::add(Computation computation) {
  made.push_back(std::move(computation));
  return ComputationId{static_cast<uint32_t>(made.size() - 1)};
}

Computation RebuiltModule::named(const Computation& around,
                                 const Instruction& origin,
                                 std::string_view part) {
  Computation computation;
  computation.name = fmt::format("{}/{}/{}", around.name, origin.name, part);
  return computation;
}

ComputationId RebuiltModule::combiner(const Computation& around,
                                      const Instruction& origin, Opcode opcode,
                                      PrimitiveType type) {
  Computation computation = named(around, origin, "combine");
  ExpansionOps ops(origin, &computation.instructions);
  const InstructionId a = ops.parameter(0, array_of(type));
  const InstructionId b = ops.parameter(1, array_of(type));
  computation.root = ops.op(opcode, {a, b}, array_of(type));
  return add(std::move(computation));
}

InstructionId ExpansionOps::parameter(int64_t number, Shape shape) {
  Instruction parameter;
  parameter.parameter_number = number;
  parameter.shape = std::move(shape);
  return append(std::move(parameter));
}

std::vector<InstructionId> ExpansionOps::elements(InstructionId tuple,
                                                  size_t first, size_t count) {
  std::vector<InstructionId> all;
  for (size_t i = 0; i < count; ++i) all.push_back(picked(tuple, first + i));
  return all;
}

InstructionId ExpansionOps::tuple(std::vector<InstructionId> values) {
  Shape shape;
  shape.type = PrimitiveType::kTuple;
  for (const InstructionId value : values)
    shape.elements.push_back(shape_of(value));
  return op(Opcode::kTuple, std::move(values), std::move(shape));
}

InstructionId ExpansionOps::integer(int64_t value) {
  return number(static_cast<double>(value), array_of(PrimitiveType::kS32));
}

InstructionId ExpansionOps::zeros(const Shape& shape) {
  Instruction zero;
  zero.opcode = Opcode::kConstant;
  zero.shape = array_of(shape.type);
  zero.literal = is_complex(shape.type)               ? "(0, 0)"
                 : shape.type == PrimitiveType::kPred ? "false"
                                                      : "0";
  return broadcast(append(std::move(zero)), {},
                   array_of(shape.type, shape.dimensions));
}

InstructionId ExpansionOps::broadcast(InstructionId value,
                                      std::vector<int64_t> dimensions,
                                      Shape shape) {
  return op(Opcode::kBroadcast, {value}, std::move(shape),
            {{"dimensions", std::move(dimensions)}});
}

Instruction cumulative_reduce_window(const Shape& shape, size_t dimension,
                                     bool from_end, InstructionId operand,
                                     InstructionId identity,
                                     ComputationId combiner) {
  std::vector<std::string> sizes, padding;
  for (size_t d = 0; d < shape.dimensions.size(); ++d) {
    const int64_t size = d == dimension ? shape.dimensions[d] : 1;
    sizes.push_back(std::to_string(size));
    padding.push_back(from_end ? fmt::format("0_{}", size - 1)
                               : fmt::format("{}_0", size - 1));
  }
  Instruction reduce;
  reduce.opcode = Opcode::kReduceWindow;
  reduce.shape = shape;
  reduce.operands = {operand, identity};
  reduce.attributes = {
      {"window",
       RawText{fmt::format("{{size={} pad={}}}", fmt::join(sizes, "x"),
                           fmt::join(padding, "x"))}},
      {"to_apply", combiner}};
  return reduce;
}

}  // namespace reprise
