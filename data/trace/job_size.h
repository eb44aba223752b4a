// How many ranks a job had, of which a trace may hold some, and how they
// reduced.
#pragma once

#include <cstddef>

#include "data/trace/trace.h"

namespace reprise {

/// What the recording says of itself (torch.distributed's world_size; a trace
/// of our trainer holds all ranks); 0: unknown.
size_t job_size(const Trace& trace);

/// Whether its all-reduces were made to go round a ring, so that they would
/// whatever the number of ranks: what NCCL_ALGO of its environment says.
bool keeps_to_rings(const Trace& trace);

}  // namespace reprise
