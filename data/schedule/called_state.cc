#include "data/schedule/called_state.h"

#include <algorithm>

#include "data/hlo/routine.h"

namespace reprise {
namespace {

/// [branch, or the loop] The values that it takes, one a parameter.
std::vector<std::vector<InstructionId>> taken_values(const OpGraph& graph,
                                                     const Instruction& call) {
  std::vector<std::vector<InstructionId>> taken;
  const bool chooses = call.opcode == Opcode::kConditional;
  for (size_t o = chooses ? 1 : 0; o < call.operands.size(); ++o) {
    const auto arrays = array_elements(*graph.entry, call.operands[o]);
    REPRISE_CHECK(arrays);  // As the graph was built.
    taken.emplace_back();
    for (const InstructionId array : *arrays)
      taken.back().push_back(graph.value_of[index_of(array)]);
  }
  return taken;
}

int32_t replaced_parameter(const OpGraph& graph, InstructionId value) {
  for (size_t o = 0; o < graph.outputs.size(); ++o) {
    if (graph.outputs[o] == value && graph.updates[o] >= 0)
      return static_cast<int32_t>(graph.updates[o]);
  }
  return -1;
}

}  // namespace

CalledState called_state(const OpGraph& graph, InstructionId routine) {
  const Instruction& call = graph.at(routine);
  const bool is_loop = call.opcode == Opcode::kWhile;
  if (!is_loop && call.opcode != Opcode::kConditional) return {};
  const auto taken = taken_values(graph, call);
  const auto& results = graph.results.at(index_of(routine));
  CalledState state{
      .replaces = std::vector<int32_t>(results.size(), -1),
      .old_value = std::vector<std::vector<int32_t>>(
          taken.size(), std::vector<int32_t>(results.size(), -1))};
  for (size_t k = 0; k < results.size(); ++k) {
    if (results[k] == kNoInstruction) continue;
    const int32_t parameter = replaced_parameter(graph, results[k]);
    if (parameter < 0) continue;
    const InstructionId old = graph.parameters[static_cast<size_t>(parameter)];
    const bool is_clear =
        std::all_of(taken.begin(), taken.end(), [&](const auto& values) {
          return std::count(values.begin(), values.end(), old) <= 1 &&
                 (!is_loop || values[k] == old);
        });
    if (!is_clear) continue;
    state.replaces[k] = parameter;
    for (size_t b = 0; b < taken.size(); ++b) {
      const auto at = std::find(taken[b].begin(), taken[b].end(), old);
      if (at != taken[b].end())
        state.old_value[b][k] = static_cast<int32_t>(at - taken[b].begin());
    }
  }
  return state;
}

}  // namespace reprise
