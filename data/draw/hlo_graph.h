// Small graphs to look at: the neighbourhood of an instruction, or one fused or
// called computation with every edge that touches it; printed as DOT or drawn
// as SVG.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/hlo/module.h"
#include "data/result.h"

namespace reprise {

/// Legend of a kind.
std::string_view node_kind_name(OpcodeKind kind);
/// A fill colour, "#rrggbb"; black text reads well on each.
std::string_view node_kind_color(OpcodeKind kind);

struct GraphNode {
  std::string name;
  std::string opcode;
  std::string shape;
  OpcodeKind kind = OpcodeKind::kElementwise;
  bool is_center = false;   ///< What was asked for.
  bool is_outside = false;  ///< Not of the computation shown.
  bool has_more = false;    ///< Some of its neighbours are not shown.
};

struct GraphEdge {
  uint32_t from = 0, to = 0;  ///< Indices of nodes, from < to.
  int64_t bytes = 0;          ///< Of the value that passes.
  bool is_control = false;    ///< An order without a value.
};

struct HloGraph {
  std::string title;
  std::vector<GraphNode> nodes;  ///< In a topological order.
  std::vector<GraphEdge> edges;
};

/// All instructions within `hops` edges of one, either way. `name` may be
/// qualified (`COMPUTATION/INSTRUCTION`); the entry is searched first. Errors:
/// kInvalid (no such name).
Result<HloGraph> graph_around(const Module& module, std::string_view name,
                              int64_t hops);

/// A whole computation, and for each of its callers the edges from the caller's
/// operands to its parameters and from its root to the caller's users. Errors:
/// kInvalid (no such name).
Result<HloGraph> graph_of_computation(const Module& module,
                                      std::string_view name);

std::string graph_dot(const HloGraph& graph);
/// A self-contained SVG document, layered from top to bottom.
std::string graph_svg(const HloGraph& graph);

/// "25.5 MB", powers of ten, three significant digits.
std::string short_bytes(int64_t bytes);

}  // namespace reprise
