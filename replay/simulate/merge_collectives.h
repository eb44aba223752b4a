// Several collectives of a graph run as one: what larger buckets would do.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "replay/graph/timed_graph.h"

namespace reprise {

/// Collectives by place, in order, each list to run as one, when its last one
/// would have: with one latency, and no wait for its parts.
using CollectiveGroups = std::vector<std::vector<uint32_t>>;
/// The longest lists in which no node that waits for one of a list comes before
/// the list's last: consecutive ones of `order` (places, of one communicator)
/// until their transfers but latency add up to `wire_ns`.
CollectiveGroups mergeable(std::span<const uint32_t> order, int64_t wire_ns,
                           const TimedGraph& graph);
/// Requires: as mergeable gives them, of a graph of a trace.
void merge_collectives(const CollectiveGroups& groups, TimedGraph& graph);

}  // namespace reprise
