// Joins the shards of all ranks into one Trace.
#pragma once

#include <string>
#include <vector>

#include "data/result.h"
#include "data/trace/trace.h"
#include "profiler/trainer_context.h"

namespace reprise {

/// Reads the shards (any order, one per rank) and builds the trace: sorted,
/// names interned, clocks of the ranks as they were measured. What was lost
/// stands in Trace::warnings. Errors: those of read_shard; kInvalid when two
/// shards are of the same rank, or an event names a unit that `context.units`
/// lacks.
Result<Trace> gather_shards(const std::vector<std::string>& paths,
                            const TrainerContext& context);

}  // namespace reprise
