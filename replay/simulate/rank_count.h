// A step on another number of ranks, each of which does what it did.
#pragma once

#include <cstdint>

#include "data/collective/collective.h"
#include "data/result.h"
#include "replay/graph/timed_graph.h"

namespace reprise {

/// What a transfer's wire time and latency are multiplied by when its group
/// grows or shrinks, as bandwidth and latency of each link stay.
struct TransferGrowth {
  double wire = 1, latency = 1;
};

/// From `from` to `to` ranks, the payload being the same: nccl-tests' "size".
/// The wire: what a ring puts on each link (source: NVIDIA/nccl-tests,
/// doc/PERFORMANCE.md). The latency: of a GPU's collective a call and its hops,
/// of all-reduces by ring or tree, whichever has fewer (source: NCCL's
/// src/graph/tuning.cc), or by the ring that they keep to; what it has now
/// beyond a call is its hops', where that is more than NCCL reckons. Of a
/// host's the rounds of Gloo's ring. Messages and what is not known stay.
/// Requires: `group.ranks` > 1.
TransferGrowth transfer_growth(const MeetingGroup& group, double latency_ns,
                               double to);

/// The job becomes one of `ranks`, and with it grow the groups of data
/// parallelism and those of everybody: groups of 2 of 8 ranks become groups of
/// 4 of 16. Those of data parallelism are the largest of the groups whose
/// ranks' numbers are farthest apart (launchers number tensor parallelism's
/// first); of all groups where messages pass stages, or some group's ranks are
/// not known. Other groups, pipelines and waits for late ranks stay. Errors:
/// kInvalid where no group has two ranks, or the largest would not be of whole
/// ranks.
Status change_rank_count(uint32_t ranks, TimedGraph& graph);

}  // namespace reprise
