// Graphs in GML (Graph Modelling Language) as networkx writes them: nodes with
// an id and a label, directed edges. Other attributes are passed over, at any
// depth; nothing recurses, and no number of the text sizes anything.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/result.h"

namespace reprise {

struct GmlGraph {
  std::vector<std::string> labels;  ///< [node], in the order of the text.
  /// Places in `labels`, in the order of the text.
  std::vector<std::pair<uint32_t, uint32_t>> edges;
  int64_t dangling_edges = 0;  ///< Left out: an end is no node.
  bool truncated = false;      ///< The text ended within the graph.
};

/// Errors: kParse when the text holds no graph at all.
Result<GmlGraph> parse_gml(std::string_view text);

}  // namespace reprise
