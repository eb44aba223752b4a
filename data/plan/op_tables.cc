#include "data/plan/op_tables.h"

#include <algorithm>

#include "data/hlo/hlo.h"
#include "data/plan/value_storage.h"

namespace reprise {

void collect_slots(OpGraph* graph) {
  for (size_t i = 0; i < graph->entry->instructions.size(); ++i) {
    if (graph->role[i] != OpRole::kCollective) continue;
    const Instruction& collective = graph->entry->instructions[i];
    graph->first_slot[i] = static_cast<int32_t>(graph->slots.size());
    for (size_t k = 0; k < collective.operands.size(); ++k) {
      const Shape& shape = collective.shape.is_tuple()
                               ? collective.shape.elements[k]
                               : collective.shape;
      graph->slots.push_back(
          {.collective = InstructionId{static_cast<uint32_t>(i)},
           .operand = static_cast<int64_t>(k),
           .kind = *runnable_collective(opcode_name(collective.opcode)),
           .input = graph->value_of[index_of(collective.operands[k])],
           .output = collective.shape.is_tuple()
                         ? kNoInstruction
                         : InstructionId{static_cast<uint32_t>(i)},
           .type = shape.type,
           .bytes = byte_size(graph->entry->at(collective.operands[k]).shape),
           .output_bytes = byte_size(shape)});
    }
  }
  for (size_t i = 0; i < graph->entry->instructions.size(); ++i) {
    const InstructionId source = graph->producer[i];
    if (source == kNoInstruction ||
        source == InstructionId{static_cast<uint32_t>(i)})
      continue;
    const int32_t first = graph->first_slot[index_of(source)];
    if (first < 0) continue;
    const int64_t element = element_index(graph->entry->instructions[i]);
    graph->slots[static_cast<size_t>(first + element)].output =
        InstructionId{static_cast<uint32_t>(i)};
  }
}

void collect_results(OpGraph* graph) {
  for (uint32_t i = 0; i < graph->role.size(); ++i) {
    if (graph->role[i] != OpRole::kRoutine) continue;
    const Shape& shape = graph->entry->instructions[i].shape;
    graph->results[i].assign(shape.is_tuple() ? shape.elements.size() : 1,
                             shape.is_tuple()
                                 ? kNoInstruction
                                 : InstructionId{static_cast<uint32_t>(i)});
  }
  for (size_t i = 0; i < graph->entry->instructions.size(); ++i) {
    const InstructionId source = graph->producer[i];
    if (source == kNoInstruction ||
        source == InstructionId{static_cast<uint32_t>(i)})
      continue;
    const auto found = graph->results.find(index_of(source));
    if (found == graph->results.end()) continue;
    found->second.at(
        static_cast<size_t>(element_index(graph->entry->instructions[i]))) =
        InstructionId{static_cast<uint32_t>(i)};
  }
}

void collect_readers(OpGraph* graph) {
  for (size_t i = 0; i < graph->entry->instructions.size(); ++i) {
    auto& inputs = graph->inputs[i];
    std::sort(inputs.begin(), inputs.end());
    inputs.erase(std::unique(inputs.begin(), inputs.end()), inputs.end());
    for (InstructionId value : inputs)
      graph->readers[index_of(value)].push_back(
          InstructionId{static_cast<uint32_t>(i)});
  }
}

}  // namespace reprise
