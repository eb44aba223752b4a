// What-ifs replayed in advance, for the report's sliders.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "replay/graph/timed_graph.h"
#include "replay/simulate/node_facts.h"

namespace reprise {

/// Bandwidth, device and host, as far as the graph has them: every combination
/// is a replay of its own. Nothing where that would be too many nodes.
std::optional<nlohmann::ordered_json> what_if_grid(const NodeFacts& facts,
                                                   const TimedGraph& graph);

}  // namespace reprise
