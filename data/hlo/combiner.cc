// What a reduction's computation does, when it is one operation: the root
// combines both parameters. Bodies that widen a 16-bit float, combine and round
// back (float normalization leaves these) are that operation on the narrow
// type: kernels and communicators compute it so anyway.
#include "data/hlo/combiner.h"

#include "data/hlo/hlo.h"

namespace reprise {
namespace {

/// The parameter that a root's operand is, through a convert from `type`.
const Instruction* parameter_behind(const Computation& body, InstructionId id,
                                    PrimitiveType type) {
  const Instruction* operand = &body.at(id);
  if (operand->opcode == Opcode::kConvert && is_half(type) &&
      operand->shape.type == PrimitiveType::kF32) {
    operand = &body.at(operand->operands[0]);
  }
  const bool fits = operand->opcode == Opcode::kParameter &&
                    operand->shape.is_array() && operand->shape.type == type;
  return fits ? operand : nullptr;
}

}  // namespace

bool is_half(PrimitiveType type) {
  return type == PrimitiveType::kBF16 || type == PrimitiveType::kF16;
}

std::optional<Opcode> combining_opcode(const Module& module,
                                       const Instruction& instruction) {
  const std::optional<ComputationId> called = called_computation(instruction);
  if (!called) return std::nullopt;
  const Computation& body = module.at(*called);
  const Instruction* root = &body.at(body.root);
  // As partitioning writes them where a shard_map leaves axes to it.
  if (root->opcode == Opcode::kCopy) root = &body.at(root->operands[0]);
  if (root->opcode == Opcode::kParameter && root->parameter_number == 1)
    return Opcode::kParameter;
  if (!root->shape.is_array()) return std::nullopt;
  const PrimitiveType type = root->shape.type;
  if (root->opcode == Opcode::kConvert && is_half(type) &&
      body.at(root->operands[0]).shape.type == PrimitiveType::kF32) {
    root = &body.at(root->operands[0]);
  }
  if (facts_of(root->opcode).identity == Identity::kNoIdentity ||
      root->operands.size() != 2) {
    return std::nullopt;
  }
  const bool rounds = root->shape.type != type;
  int64_t seen = 0;
  for (const InstructionId operand : root->operands) {
    // A narrow root over wide operands rounds at once; anything else mixes.
    if (!rounds && body.at(operand).opcode == Opcode::kConvert)
      return std::nullopt;
    const Instruction* parameter = parameter_behind(body, operand, type);
    if (parameter == nullptr || parameter->parameter_number > 1)
      return std::nullopt;
    seen += parameter->parameter_number + 1;
  }
  if (seen != 3) return std::nullopt;
  return root->opcode;
}

}  // namespace reprise
