// How many ranks a job had, of which a trace may hold some.
#pragma once

#include <cstddef>

#include "data/trace/trace.h"

namespace reprise {

/// What the recording says of itself (torch.distributed's world_size; a trace
/// of our trainer holds all ranks); 0: unknown.
size_t job_size(const Trace& trace);

}  // namespace reprise
