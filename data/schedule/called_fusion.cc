// From the last op to the first, an op joins the group of its readers if that
// is one and the same: a path that leaves a group leaves it from its last op,
// so groups are convex, and their graph stays acyclic.
#include "data/schedule/called_fusion.h"

#include <algorithm>

#include "data/hlo/hlo.h"
#include "data/hlo/opcode.h"

namespace reprise {
namespace {

bool is_elementwise(const OpGraph& graph, InstructionId op) {
  return graph.role_of(op) == OpRole::kKernel &&
         runs_elementwise(graph.at(op).opcode);
}

/// Only names elements of its operand.
bool is_slice_or_pad(const OpGraph& graph, InstructionId op) {
  const Opcode opcode = graph.at(op).opcode;
  return graph.role_of(op) == OpRole::kKernel &&
         (opcode == Opcode::kSlice || opcode == Opcode::kPad);
}

/// Computes each element of its result on its own.
bool joins_readers(const OpGraph& graph, InstructionId op) {
  return is_elementwise(graph, op) || is_slice_or_pad(graph, op) ||
         (graph.role_of(op) == OpRole::kKernel &&
          graph.at(op).opcode == Opcode::kDot);
}

/// Elements that a group's last op runs over; 0 for one that takes in nothing.
int64_t elements_run_over(const OpGraph& graph, InstructionId op) {
  const Instruction& instruction = graph.at(op);
  if (is_elementwise(graph, op)) return element_count(instruction.shape);
  if (graph.role_of(op) != OpRole::kKernel ||
      instruction.opcode != Opcode::kReduce)
    return 0;
  return element_count(graph.at(instruction.operands[0]).shape);
}

/// Whether a group whose ops alone read `op` may compute it, too.
bool takes_in(const OpGraph& graph, InstructionId last, InstructionId op) {
  const int64_t run_over = elements_run_over(graph, last);
  const int64_t elements = element_count(graph.at(op).shape);
  if (is_slice_or_pad(graph, op)) return elements <= run_over;
  return elements == run_over &&
         std::ranges::none_of(graph.readers[index_of(op)],
                              [&](InstructionId reader) {
                                return is_slice_or_pad(graph, reader);
                              });
}

}  // namespace

std::vector<ChosenGroup> fuse_elementwise(const OpGraph& graph) {
  const auto count = static_cast<uint32_t>(graph.role.size());
  /// [op] The last op of its group.
  std::vector<uint32_t> last(count);
  for (uint32_t i = count; i-- > 0;) {
    last[i] = i;
    const InstructionId op{i};
    if (!joins_readers(graph, op) || graph.is_output[i]) continue;
    const std::vector<InstructionId>& readers = graph.readers[i];
    if (readers.empty()) continue;
    const uint32_t into = last[index_of(readers[0])];
    const bool is_one = std::all_of(
        readers.begin(), readers.end(),
        [&](InstructionId reader) { return last[index_of(reader)] == into; });
    if (is_one && takes_in(graph, InstructionId{into}, op)) last[i] = into;
  }
  std::vector<std::vector<InstructionId>> members(count);
  for (uint32_t i = 0; i < count; ++i)
    members[last[i]].push_back(InstructionId{i});
  std::vector<ChosenGroup> groups;
  for (std::vector<InstructionId>& ops : members) {
    if (ops.size() > 1) groups.push_back({.ops = std::move(ops)});
  }
  return groups;
}

}  // namespace reprise
