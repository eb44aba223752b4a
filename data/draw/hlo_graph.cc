// Selection of what a graph shows, and its DOT text.
#include "data/draw/hlo_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "data/hlo/cost_analysis.h"
#include "data/hlo/instruction_place.h"
#include "data/hlo/module_summary.h"

namespace reprise {
namespace {

struct KindRow {
  OpcodeKind kind;
  std::string_view name;
  std::string_view color;
};

constexpr std::array<KindRow, 9> kKinds = {{
    {OpcodeKind::kParameter, "parameter", "#ffd9a0"},
    {OpcodeKind::kConstant, "constant", "#e0e0e0"},
    {OpcodeKind::kElementwise, "elementwise", "#d6e9ff"},
    {OpcodeKind::kContraction, "dot, convolution", "#8fb8f0"},
    {OpcodeKind::kReduction, "reduction", "#c9b8f2"},
    {OpcodeKind::kMovement, "data movement", "#c8ecc4"},
    {OpcodeKind::kCollective, "collective", "#f7a8a0"},
    {OpcodeKind::kControl, "fusion, call, loop", "#fff2a8"},
    {OpcodeKind::kCustom, "custom call", "#f3c6e8"},
}};

GraphNode make_node(const Instruction& instruction) {
  GraphNode node;
  node.name = instruction.name;
  node.opcode = written_opcode(instruction);
  node.shape = shape_text(instruction.shape, false);
  node.kind = facts_of(wrapped_opcode(instruction)).kind;
  return node;
}

/// A get-tuple-element passes on one element only, a start its result.
int64_t passed_bytes(const Instruction& from, const Instruction& to) {
  return byte_size(
      to.opcode == Opcode::kGetTupleElement ? to.shape : computed_shape(from));
}

std::vector<InstructionId> control_predecessors(
    const Instruction& instruction) {
  const Attribute* found = instruction.find_attribute("control-predecessors");
  if (found == nullptr) return {};
  const auto* ids = std::get_if<std::vector<InstructionId>>(&found->value);
  return ids == nullptr ? std::vector<InstructionId>() : *ids;
}

void add_edge(HloGraph* graph, const GraphEdge& edge) {
  for (const GraphEdge& known : graph->edges) {
    if (known.from == edge.from && known.to == edge.to) return;
  }
  graph->edges.push_back(edge);
}

/// Edges among the shown instructions of one computation, `shown[id]` -> node
/// index or -1.
void add_inner_edges(const Computation& computation,
                     const std::vector<int64_t>& shown, HloGraph* graph) {
  for (size_t i = 0; i < shown.size(); ++i) {
    if (shown[i] < 0) continue;
    const Instruction& user = computation.instructions[i];
    const auto to = static_cast<uint32_t>(shown[i]);
    std::vector<InstructionId> seen;
    const auto connect = [&](InstructionId id, bool is_control) {
      const int64_t from = shown[index_of(id)];
      if (from < 0 || std::find(seen.begin(), seen.end(), id) != seen.end())
        return;
      seen.push_back(id);
      const int64_t bytes =
          is_control ? 0 : passed_bytes(computation.at(id), user);
      graph->edges.push_back(
          {static_cast<uint32_t>(from), to, bytes, is_control});
    };
    for (const InstructionId operand : user.operands) connect(operand, false);
    for (const InstructionId before : control_predecessors(user))
      connect(before, true);
  }
}

struct Place {
  ComputationId computation{};
  InstructionId instruction{};
};

std::optional<InstructionId> find_in(const Computation& computation,
                                     std::string_view name) {
  for (uint32_t i = 0; i < computation.instructions.size(); ++i) {
    if (computation.instructions[i].name == name) return InstructionId{i};
  }
  return std::nullopt;
}

/// "; such are: …" of instructions that hold the word in their name or in what
/// the source calls them.
std::string similar_names(const Module& module, std::string_view word) {
  constexpr int kMost = 5;
  std::string names;
  int count = 0;
  for (const Computation& computation : module.computations) {
    for (const Instruction& instruction : computation.instructions) {
      const bool holds = instruction.name.find(word) != std::string::npos ||
                         metadata_field(instruction, "op_name").find(word) !=
                             std::string::npos;
      if (!holds || word.empty() || ++count > kMost) continue;
      names += (names.empty() ? "; such are: " : ", ") + instruction.name;
    }
  }
  if (count > kMost) names += fmt::format(" and {} more", count - kMost);
  return names;
}

Result<Place> find_instruction(const Module& module, std::string_view name) {
  if (name.starts_with('%')) name.remove_prefix(1);
  if (const auto id = find_in(module.entry_computation(), name))
    return Place{module.entry, *id};
  for (uint32_t i = 0; i < module.computations.size(); ++i) {
    const Computation& computation = module.computations[i];
    std::string_view local = name;
    const bool qualified = name.size() > computation.name.size() &&
                           name.starts_with(computation.name) &&
                           name[computation.name.size()] == '/';
    if (qualified) local.remove_prefix(computation.name.size() + 1);
    if (const auto id = find_in(computation, local))
      return Place{ComputationId{i}, *id};
  }
  return fail(ErrorKind::kInvalid, "module `{}` has no instruction `{}`{}",
              module.name, name, similar_names(module, name));
}

/// All neighbours of each instruction, by value or control, either way.
std::vector<std::vector<InstructionId>> neighbours_of(
    const Computation& computation) {
  std::vector<std::vector<InstructionId>> neighbours = users_of(computation);
  for (uint32_t i = 0; i < computation.instructions.size(); ++i) {
    const Instruction& instruction = computation.instructions[i];
    for (const InstructionId before : control_predecessors(instruction)) {
      neighbours[index_of(before)].push_back(InstructionId{i});
      neighbours[i].push_back(before);
    }
    neighbours[i].insert(neighbours[i].end(), instruction.operands.begin(),
                         instruction.operands.end());
  }
  return neighbours;
}

/// Draws the callers of one computation around it. Values that come in and
/// values that go out are nodes of their own, so that a chain of calls of one
/// computation makes no cycle.
class CallerDrawing {
 public:
  CallerDrawing(const Module& module, ComputationId callee)
      : module_(module), callee_(callee) {}

  HloGraph run() {
    const Computation& computation = module_.at(callee_);
    collect();
    graph_.title = fmt::format("{} / {}", module_.name, computation.name);
    for (const Key& key : incoming_) add_outside(key);
    const auto first = static_cast<uint32_t>(graph_.nodes.size());
    std::vector<int64_t> shown;
    for (size_t i = 0; i < computation.instructions.size(); ++i) {
      shown.push_back(static_cast<int64_t>(graph_.nodes.size()));
      graph_.nodes.push_back(make_node(computation.instructions[i]));
      graph_.nodes.back().is_center = true;
    }
    const auto after = static_cast<uint32_t>(graph_.nodes.size());
    for (const Key& key : outgoing_) add_outside(key);
    for (const auto& [key, parameter] : entering_) {
      const auto from = static_cast<uint32_t>(position(incoming_, key));
      add_edge(&graph_, {from, first + index_of(parameter),
                         byte_size(at(key).shape), false});
    }
    add_inner_edges(computation, shown, &graph_);
    for (const auto& [key, bytes] : leaving_) {
      const auto to = static_cast<uint32_t>(after + position(outgoing_, key));
      add_edge(&graph_, {first + index_of(computation.root), to, bytes, false});
    }
    return std::move(graph_);
  }

 private:
  using Key = std::pair<ComputationId, InstructionId>;

  const Instruction& at(const Key& key) const {
    return module_.at(key.first).at(key.second);
  }

  static size_t position(const std::vector<Key>& sorted, const Key& key) {
    return static_cast<size_t>(
        std::lower_bound(sorted.begin(), sorted.end(), key) - sorted.begin());
  }

  void add_outside(const Key& key) {
    GraphNode node = make_node(at(key));
    node.is_outside = true;
    node.has_more = true;
    graph_.nodes.push_back(std::move(node));
  }

  void collect() {
    for (uint32_t i = 0; i < module_.computations.size(); ++i) {
      const Computation& computation = module_.computations[i];
      std::vector<std::vector<InstructionId>> users;
      for (uint32_t j = 0; j < computation.instructions.size(); ++j) {
        const std::vector<ComputationId> called =
            called_computations(computation.instructions[j]);
        if (std::find(called.begin(), called.end(), callee_) == called.end())
          continue;
        if (users.empty()) users = users_of(computation);
        collect_caller(ComputationId{i}, InstructionId{j}, users[j]);
      }
    }
    for (const auto& [key, parameter] : entering_) incoming_.push_back(key);
    for (const auto& [key, bytes] : leaving_) outgoing_.push_back(key);
    for (std::vector<Key>* keys : {&incoming_, &outgoing_}) {
      std::sort(keys->begin(), keys->end());
      keys->erase(std::unique(keys->begin(), keys->end()), keys->end());
    }
  }

  void collect_caller(ComputationId computation, InstructionId id,
                      const std::vector<InstructionId>& users) {
    const Instruction& caller = module_.at(computation).at(id);
    const Computation& callee = module_.at(callee_);
    for (uint32_t i = 0; i < callee.instructions.size(); ++i) {
      if (callee.instructions[i].opcode != Opcode::kParameter) continue;
      for (const size_t k : operands_into(caller, callee.instructions[i])) {
        entering_.emplace_back(Key{computation, caller.operands[k]},
                               InstructionId{i});
      }
    }
    // A loop's condition tells the loop alone.
    const bool is_condition = caller.opcode == Opcode::kWhile &&
                              called_computation(caller, "body") != callee_;
    if (is_condition || users.empty()) {
      const Shape& result =
          is_condition ? callee.at(callee.root).shape : caller.shape;
      leaving_.emplace_back(Key{computation, id}, byte_size(result));
      return;
    }
    for (const InstructionId user : users) {
      leaving_.emplace_back(
          Key{computation, user},
          passed_bytes(caller, module_.at(computation).at(user)));
    }
  }

  /// Places of the caller's operands whose values reach a parameter: its own
  /// where each has one, a branch's, or (of a reducer and its like) all.
  std::vector<size_t> operands_into(const Instruction& caller,
                                    const Instruction& parameter) const {
    const size_t count = caller.operands.size();
    const auto number = static_cast<size_t>(parameter.parameter_number);
    std::vector<size_t> places;
    if (caller.opcode == Opcode::kConditional) {
      const std::vector<ComputationId> branches = called_computations(caller);
      for (size_t i = 0; i < branches.size() && i + 1 < count; ++i) {
        if (branches[i] == callee_) places.push_back(i + 1);
      }
      return places;
    }
    if (parameters_of(module_.at(callee_)).size() == count) return {number};
    for (size_t k = 0; k < count; ++k) places.push_back(k);
    return places;
  }

  const Module& module_;
  ComputationId callee_;
  std::vector<std::pair<Key, InstructionId>> entering_;
  std::vector<std::pair<Key, int64_t>> leaving_;  ///< With its bytes.
  std::vector<Key> incoming_;                     ///< Sorted, each once.
  std::vector<Key> outgoing_;                     ///< Sorted, each once.
  HloGraph graph_;
};

std::string escape_dot(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out.push_back('\\');
    out.push_back(c);
  }
  return out;
}

}  // namespace

std::string_view node_kind_name(OpcodeKind kind) {
  return kKinds[static_cast<size_t>(kind)].name;
}
std::string_view node_kind_color(OpcodeKind kind) {
  return kKinds[static_cast<size_t>(kind)].color;
}

Result<HloGraph> graph_around(const Module& module, std::string_view name,
                              int64_t hops) {
  const auto place = find_instruction(module, name);
  if (!place) return tl::unexpected<Error>(place.error());
  const Computation& computation = module.at(place->computation);
  const std::vector<std::vector<InstructionId>> neighbours =
      neighbours_of(computation);
  std::vector<int64_t> shown(computation.instructions.size(), -1);
  shown[index_of(place->instruction)] = 0;
  std::vector<InstructionId> frontier = {place->instruction};
  for (int64_t hop = 0; hop < hops && !frontier.empty(); ++hop) {
    std::vector<InstructionId> next;
    for (const InstructionId id : frontier) {
      for (const InstructionId neighbour : neighbours[index_of(id)]) {
        if (shown[index_of(neighbour)] >= 0) continue;
        shown[index_of(neighbour)] = 0;
        next.push_back(neighbour);
      }
    }
    frontier = std::move(next);
  }
  HloGraph graph;
  graph.title =
      fmt::format("{} / {} around {}, {} hops", module.name, computation.name,
                  computation.at(place->instruction).name, hops);
  for (size_t i = 0; i < shown.size(); ++i) {
    if (shown[i] < 0) continue;
    shown[i] = static_cast<int64_t>(graph.nodes.size());
    GraphNode& node =
        graph.nodes.emplace_back(make_node(computation.instructions[i]));
    node.is_center = i == index_of(place->instruction);
  }
  for (size_t i = 0; i < shown.size(); ++i) {
    if (shown[i] < 0) continue;
    for (const InstructionId neighbour : neighbours[i]) {
      if (shown[index_of(neighbour)] < 0)
        graph.nodes[static_cast<size_t>(shown[i])].has_more = true;
    }
  }
  add_inner_edges(computation, shown, &graph);
  return graph;
}

Result<HloGraph> graph_of_computation(const Module& module,
                                      std::string_view name) {
  const auto id = find_computation(module, name);
  if (!id) return tl::unexpected<Error>(id.error());
  return CallerDrawing(module, *id).run();
}

std::string short_bytes(int64_t bytes) {
  constexpr std::array<std::string_view, 7> kUnits = {"B",  "kB", "MB", "GB",
                                                      "TB", "PB", "EB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 999.5 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  const int decimals = unit == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f} {}", value, decimals, kUnits[unit]);
}

std::string graph_dot(const HloGraph& graph) {
  std::string out = fmt::format("digraph \"{}\" {{\n", escape_dot(graph.title));
  out +=
      "  node [shape=box, style=\"rounded,filled\", "
      "fontname=\"sans-serif\"];\n";
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const GraphNode& node = graph.nodes[i];
    out += fmt::format(
        "  n{} [label=\"{}\\n{}\\n{}\", fillcolor=\"{}\"{}{}];\n", i,
        escape_dot(node.name), escape_dot(node.opcode), escape_dot(node.shape),
        node_kind_color(node.kind), node.is_center ? ", penwidth=2" : "",
        node.has_more ? ", style=\"rounded,filled,dashed\"" : "");
  }
  for (const GraphEdge& edge : graph.edges) {
    out += fmt::format(
        "  n{} -> n{} [{}];\n", edge.from, edge.to,
        edge.is_control ? "style=dashed"
                        : fmt::format("label=\"{}\"", short_bytes(edge.bytes)));
  }
  return out + "}\n";
}

}  // namespace reprise
