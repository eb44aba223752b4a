#include "data/schedule/called_buckets.h"

#include <algorithm>
#include <map>

#include "data/plan/unit_graph.h"
#include "data/schedule/called_program.h"

namespace reprise {
namespace {

/// [instruction] The most collectives that wait for each other before it.
std::vector<int32_t> depths(const OpGraph& graph) {
  const std::vector<Instruction>& all = graph.entry->instructions;
  std::vector<int32_t> depth(all.size(), 0);
  for (size_t i = 0; i < all.size(); ++i) {  // Operands stand before users.
    for (const InstructionId operand : all[i].operands) {
      const int32_t own = graph.role_of(operand) == OpRole::kCollective ? 1 : 0;
      depth[i] = std::max(depth[i], depth[index_of(operand)] + own);
    }
  }
  return depth;
}

void add_joined(const CalledProgram& program,
                std::vector<std::vector<std::string>>& found) {
  const Computation& entry = program.module.entry_computation();
  for (const Unit& unit : program.schedule.units) {
    for (const RoutineCallee& callee : unit.routine.callees)
      add_joined(*callee.program, found);
    const bool is_plain = std::ranges::all_of(unit.ops, [&](InstructionId op) {
      return entry.at(op).shape.is_array();
    });
    if (unit.collective.bucket < 0 || unit.kind != UnitKind::kCollective ||
        !is_plain)
      continue;
    std::vector<std::string> names;
    for (const InstructionId op : unit.ops) names.push_back(entry.at(op).name);
    if (std::ranges::find(found, names) == found.end())
      found.push_back(std::move(names));
  }
}

}  // namespace

std::vector<std::vector<std::string>> joined_in(const Schedule& schedule) {
  std::vector<std::vector<std::string>> found;
  for (const Unit& unit : schedule.units) {
    for (const RoutineCallee& callee : unit.routine.callees)
      add_joined(*callee.program, found);
  }
  return found;
}

std::vector<ChosenBucket> join_called(const OpGraph& graph, int64_t ranks) {
  const std::vector<int32_t> depth = depths(graph);
  std::map<int32_t, std::vector<ChosenBucket>> of_depth;
  for (size_t s = 0; s < graph.slots.size(); ++s) {
    const CollectiveSlot& slot = graph.slots[s];
    if (!facts_of(slot.kind).shares_buckets) continue;
    std::vector<ChosenBucket>& buckets =
        of_depth[depth[index_of(slot.collective)]];
    bool found = false;
    for (size_t b = 0; b < buckets.size() && !found; ++b) {
      buckets[b].slots.push_back(static_cast<int32_t>(s));
      found = plan_collective(graph, ranks, buckets[b].slots, 1).has_value();
      if (!found) buckets[b].slots.pop_back();
    }
    if (!found) buckets.push_back({.slots = {static_cast<int32_t>(s)}});
  }
  std::vector<ChosenBucket> joined;
  for (auto& [_, buckets] : of_depth) {
    for (ChosenBucket& bucket : buckets) {
      if (bucket.slots.size() > 1) joined.push_back(std::move(bucket));
    }
  }
  return joined;
}

}  // namespace reprise
