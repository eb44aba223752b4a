#include "data/schedule/lane_function.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "data/kernel/kernel_parts.h"

namespace reprise {
namespace {

void widen(Shape* shape) {
  shape->dimensions = {kFunctionLanes};
  shape->minor_to_major.clear();
  shape->has_layout = false;
}

/// Whether it names its operand's one element.
bool is_same_scalar(const Instruction& instruction) {
  return instruction.opcode == Opcode::kReshape ||
         instruction.opcode == Opcode::kBroadcast;
}

Instruction broadcast_of(const Instruction& constant, InstructionId operand) {
  Instruction broadcast;
  broadcast.name = constant.name + "/lanes";
  broadcast.opcode = Opcode::kBroadcast;
  broadcast.shape = constant.shape;
  broadcast.operands = {operand};
  broadcast.attributes.push_back({"dimensions", std::vector<int64_t>()});
  return broadcast;
}

}  // namespace

std::optional<InlinedModule> over_lanes(const InlinedModule& function) {
  InlinedModule lanes = function;
  Computation& entry = lanes.entry_computation();
  std::vector<Instruction> made;
  std::vector<InstructionId> places;
  const auto append = [&](Instruction instruction) {
    made.push_back(std::move(instruction));
    return InstructionId{static_cast<uint32_t>(made.size() - 1)};
  };
  for (const Instruction& original : entry.instructions) {
    Instruction instruction = original;
    for (InstructionId& operand : instruction.operands)
      operand = places[index_of(operand)];
    if (instruction.opcode == Opcode::kTuple) {
      for (Shape& element : instruction.shape.elements) widen(&element);
      places.push_back(append(std::move(instruction)));
      continue;
    }
    if (!instruction.shape.is_array() || !instruction.shape.dimensions.empty())
      return std::nullopt;
    if (is_same_scalar(instruction)) {
      places.push_back(instruction.operands[0]);
      continue;
    }
    if (instruction.opcode == Opcode::kConstant) {
      Instruction broadcast = broadcast_of(
          instruction, InstructionId{static_cast<uint32_t>(made.size())});
      append(std::move(instruction));
      instruction = std::move(broadcast);
    } else if (instruction.opcode != Opcode::kParameter &&
               facts_of(instruction.opcode).lowering != Lowering::kElement) {
      return std::nullopt;
    }
    widen(&instruction.shape);
    places.push_back(append(std::move(instruction)));
  }
  entry.root = places[index_of(entry.root)];
  entry.instructions = std::move(made);
  return lanes;
}

bool has_lanes(const Kernel& kernel) {
  const KernelParts parts = kernel_parts(kernel);
  return parts.parts.size() == 1 && parts.iterations() == kFunctionLanes &&
         std::all_of(kernel.arguments.begin(), kernel.arguments.end(),
                     [](const KernelArgument& argument) {
                       return argument.elements == kFunctionLanes;
                     });
}

}  // namespace reprise
