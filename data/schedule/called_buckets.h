// Which collectives of a computation that runs inside a unit run as one: no
// plan reaches into it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/plan/op_graph.h"
#include "data/plan/plan_choice.h"
#include "data/schedule/schedule.h"

namespace reprise {

/// A bucket of all that are alike and have waited for equally many collectives,
/// one after the other: none of them waits for another. Inside a unit they run
/// where they stand and hide nothing, so what comes together takes one latency
/// in place of several. Cost: each slot is tried with the buckets of its depth.
std::vector<ChosenBucket> join_called(const OpGraph& graph, int64_t ranks);

/// The names of what is joined so in the programs that a schedule calls, each
/// list once; without instructions of several operands, of which a bucket may
/// hold some.
std::vector<std::vector<std::string>> joined_in(const Schedule& schedule);

}  // namespace reprise
