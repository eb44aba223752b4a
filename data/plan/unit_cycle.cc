// Finds out whether the units of a plan wait for each other, and says why in
// the plan's words.

#include <algorithm>
#include <deque>

#include "data/plan/unit_graph.h"

namespace reprise {
namespace {

/// Chunks of one collective count as one unit: none may feed another through
/// computation.
std::vector<uint32_t> whole_units(const UnitGraph& graph) {
  std::vector<uint32_t> whole(graph.units.size());
  for (uint32_t u = 0; u < whole.size(); ++u) {
    whole[u] = u - static_cast<uint32_t>(graph.units[u].chunk);
  }
  return whole;
}

/// Marks units on a cycle or behind one.
std::vector<bool> blocked_units(const UnitGraph& graph,
                                const std::vector<uint32_t>& whole) {
  const size_t count = graph.units.size();
  std::vector<std::vector<uint32_t>> successors(count);
  std::vector<uint32_t> waits(count, 0);
  for (uint32_t u = 0; u < count; ++u) {
    for (uint32_t before : graph.units[u].predecessors) {
      successors[whole[before]].push_back(whole[u]);
      ++waits[whole[u]];
    }
  }
  std::deque<uint32_t> ready;
  std::vector<bool> blocked(count, false);
  for (uint32_t u = 0; u < count; ++u) {
    blocked[u] = whole[u] == u;
    if (blocked[u] && waits[u] == 0) ready.push_back(u);
  }
  while (!ready.empty()) {
    const uint32_t u = ready.front();
    ready.pop_front();
    blocked[u] = false;
    for (uint32_t after : successors[u]) {
      if (--waits[after] == 0) ready.push_back(after);
    }
  }
  return blocked;
}

std::vector<InstructionId> readers_of(const OpGraph& graph, InstructionId op) {
  if (graph.role_of(op) == OpRole::kDot) {
    const auto dot = static_cast<size_t>(graph.dot_of[index_of(op)]);
    return graph.readers[index_of(graph.dots[dot].out.value)];
  }
  std::vector<InstructionId> result;
  if (graph.role_of(op) == OpRole::kRoutine) {
    for (const InstructionId value : graph.results.at(index_of(op))) {
      if (value == kNoInstruction) continue;
      const auto& readers = graph.readers[index_of(value)];
      result.insert(result.end(), readers.begin(), readers.end());
    }
    return result;
  }
  if (graph.role_of(op) != OpRole::kCollective)
    return graph.readers[index_of(op)];
  const auto first = static_cast<size_t>(graph.first_slot[index_of(op)]);
  for (size_t slot = first; slot < first + graph.slot_count(op); ++slot) {
    const InstructionId output = graph.slots[slot].output;
    if (output == kNoInstruction) continue;
    const auto& readers = graph.readers[index_of(output)];
    result.insert(result.end(), readers.begin(), readers.end());
  }
  return result;
}

/// A shortest path of ops that starts and ends in `unit` and is outside
/// between; empty if none. A collective's members are one op each, so a path
/// between two needs nothing between.
std::vector<InstructionId> path_back(const OpGraph& graph,
                                     const UnitGraph& units, uint32_t unit) {
  const PlannedUnit& start = units.units[unit];
  const bool collective = start.role == OpRole::kCollective;
  const auto inside = [&](InstructionId op) {
    return std::binary_search(start.ops.begin(), start.ops.end(), op);
  };
  std::vector<InstructionId> parent(graph.role.size(), kNoInstruction);
  std::vector<bool> seen(graph.role.size(), false);
  std::deque<InstructionId> queue;
  for (InstructionId op : start.ops) {
    if (collective || units.owner[index_of(op)] == unit) queue.push_back(op);
  }
  while (!queue.empty()) {
    const InstructionId op = queue.front();
    queue.pop_front();
    for (InstructionId reader : readers_of(graph, op)) {
      if (inside(reader)) {
        if (inside(op) && !collective) continue;
        std::vector<InstructionId> path{reader, op};
        while (!inside(path.back()))
          path.push_back(parent[index_of(path.back())]);
        std::reverse(path.begin(), path.end());
        return path;
      }
      if (seen[index_of(reader)]) continue;
      seen[index_of(reader)] = true;
      parent[index_of(reader)] = op;
      queue.push_back(reader);
    }
  }
  return {};
}

std::string path_text(const OpGraph& graph,
                      const std::vector<InstructionId>& path) {
  std::vector<std::string> names;
  names.reserve(path.size());
  for (InstructionId op : path) names.push_back(graph.at(op).name);
  if (names.size() > 8) {
    names.erase(names.begin() + 4, names.end() - 3);
    names.insert(names.begin() + 4, "...");
  }
  return fmt::format("{}", fmt::join(names, " -> "));
}

std::string explain_unit(const OpGraph& graph, const PlannedUnit& unit,
                         const std::vector<InstructionId>& path) {
  const std::string text = path_text(graph, path);
  if (unit.role == OpRole::kCollective) {
    const std::string name = unit.name.substr(0, unit.name.find('#'));
    return fmt::format(
        "bucket '{}': its member '{}' depends on its member '{}' ({})", name,
        graph.at(path.back()).name, graph.at(path.front()).name, text);
  }
  const auto is_collective = [&](InstructionId op) {
    return graph.role_of(op) == OpRole::kCollective;
  };
  const auto crossed = std::find_if(path.begin(), path.end(), is_collective);
  if (crossed != path.end()) {
    return fmt::format("group '{}' crosses collective '{}': {}", unit.name,
                       graph.at(*crossed).name, text);
  }
  return fmt::format("group '{}' is not convex: {} leaves it and comes back",
                     unit.name, text);
}

/// Some cycle among blocked units, in the order in which they wait.
std::string explain_ring(const UnitGraph& graph,
                         const std::vector<uint32_t>& whole,
                         const std::vector<bool>& blocked) {
  std::vector<std::vector<uint32_t>> before(graph.units.size());
  for (uint32_t u = 0; u < graph.units.size(); ++u) {
    for (uint32_t p : graph.units[u].predecessors)
      before[whole[u]].push_back(whole[p]);
  }
  auto u = static_cast<uint32_t>(
      std::find(blocked.begin(), blocked.end(), true) - blocked.begin());
  std::vector<uint32_t> trail;
  std::vector<bool> seen(graph.units.size(), false);
  while (!seen[u]) {  // Every blocked unit waits for a blocked one, so this
                      // closes a ring.
    seen[u] = true;
    trail.push_back(u);
    u = *std::find_if(before[u].begin(), before[u].end(),
                      [&](uint32_t p) { return blocked[p]; });
  }
  std::vector<std::string> names;
  for (auto at = std::find(trail.begin(), trail.end(), u); at != trail.end();
       ++at) {
    names.push_back(fmt::format("'{}'", graph.units[*at].name));
  }
  if (names.size() > 8) {
    names.erase(names.begin() + 8, names.end());
    names.emplace_back("...");
  }
  return fmt::format("units wait for each other in a ring: {}",
                     fmt::join(names, ", "));
}

}  // namespace

std::string explain_cycle(const OpGraph& graph, const UnitGraph& units) {
  const std::vector<uint32_t> whole = whole_units(units);
  const std::vector<bool> blocked = blocked_units(units, whole);
  if (std::find(blocked.begin(), blocked.end(), true) == blocked.end())
    return {};
  for (uint32_t u = 0; u < blocked.size(); ++u) {
    if (!blocked[u]) continue;
    const std::vector<InstructionId> path = path_back(graph, units, u);
    if (!path.empty()) return explain_unit(graph, units.units[u], path);
  }
  return explain_ring(units, whole, blocked);
}

}  // namespace reprise
