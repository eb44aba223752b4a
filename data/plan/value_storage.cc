// Equal get-tuple-elements are one value: the first stands for all of them.
#include "data/plan/value_storage.h"

#include <unordered_map>

#include "data/hlo/hlo.h"

namespace reprise {
namespace {

bool shares_storage(const Instruction& instruction) {
  return is_reshape(instruction.opcode) ||
         (instruction.opcode == Opcode::kOptimizationBarrier &&
          instruction.shape.is_array());
}

}  // namespace

int64_t element_index(const Instruction& element) {
  const std::vector<int64_t> index = integer_list(element, "index");
  return index.empty() ? 0 : index[0];
}

ValueStorage::ValueStorage(const Computation& entry)
    : entry_(entry),
      written_(entry.instructions.size(), false),
      canonical_element_(entry.instructions.size(), kNoInstruction) {
  std::unordered_map<uint64_t, InstructionId> elements;
  for (uint32_t i = 0; i < entry.instructions.size(); ++i) {
    const Instruction& instruction = entry.instructions[i];
    if (instruction.opcode != Opcode::kGetTupleElement) continue;
    const InstructionId source = tuple_source(instruction.operands[0]);
    const uint64_t key =
        (uint64_t{index_of(source)} << 32) |
        static_cast<uint64_t>(element_index(instruction) & 0xffffffff);
    canonical_element_[i] =
        elements.emplace(key, InstructionId{i}).first->second;
  }
}

InstructionId ValueStorage::tuple_source(InstructionId tuple) const {
  while (entry_.at(tuple).opcode == Opcode::kOptimizationBarrier) {
    tuple = entry_.at(tuple).operands[0];
  }
  return tuple;
}

/// One step towards what a get-tuple-element reads: a tuple's operand, or
/// itself.
InstructionId ValueStorage::through_element(InstructionId element) const {
  const Instruction& instruction = entry_.at(element);
  const Instruction& source = entry_.at(tuple_source(instruction.operands[0]));
  const int64_t index = element_index(instruction);
  if (source.opcode == Opcode::kTuple && index >= 0 &&
      index < static_cast<int64_t>(source.operands.size())) {
    return source.operands[static_cast<size_t>(index)];
  }
  return canonical_element_[index_of(element)];
}

InstructionId ValueStorage::resolve(InstructionId id, bool through_maps) const {
  while (!written_[index_of(id)]) {
    const Instruction& instruction = entry_.at(id);
    if (shares_storage(instruction) ||
        (through_maps && instruction.opcode == Opcode::kBroadcast)) {
      id = instruction.operands[0];
    } else if (instruction.opcode == Opcode::kGetTupleElement) {
      const InstructionId next = through_element(id);
      if (next == id) return id;
      id = next;
    } else if (through_maps && (instruction.opcode == Opcode::kConstant ||
                                instruction.opcode == Opcode::kIota)) {
      return kNoInstruction;
    } else {
      return id;
    }
  }
  return id;
}

}  // namespace reprise
