// Groups of a called program that become one group of several results.
#pragma once

#include <cstdint>
#include <vector>

#include "data/plan/op_graph.h"
#include "data/schedule/called_fusion.h"

namespace reprise {

/// True of a kernel's op that computes each element from those at its place.
bool is_elementwise(const OpGraph& graph, InstructionId op);

/// [op] A number of its group, where `last` names the last op of the group it
/// is in so far. Groups that read each other over the same elements are one;
/// with kLaunches also where one goes over rows whose sums the other is, or is
/// computed from.
std::vector<uint32_t> join_neighbours(const OpGraph& graph,
                                      const std::vector<uint32_t>& last,
                                      CalledFusion fusion);

}  // namespace reprise
