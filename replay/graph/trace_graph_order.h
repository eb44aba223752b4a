// A topological order of a draft's nodes in which the members of a meeting
// stand side by side. Edges that close a cycle are left out: of each cycle
// found, the least trusted one (the last of EdgeKind, then the one that
// reaches furthest back in recorded time).
#pragma once

#include <cstdint>
#include <vector>

#include "replay/graph/trace_graph_draft.h"

namespace reprise {

struct NodeOrder {
  std::vector<uint32_t> order;  ///< All nodes.
  int64_t dropped = 0;          ///< Edges left out.
};

/// Removes from `graph` the edges that it leaves out. Deterministic; ties go to
/// the lower number. Cost: O(nodes + edges), plus O(n log n) where there are
/// cycles.
NodeOrder order_nodes(LooseGraph& graph, const Meetings& meetings);

}  // namespace reprise
