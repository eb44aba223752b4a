// Which recorded names are of collectives; which kind one names is
// collective_named's.
#pragma once

#include <string_view>

namespace reprise {

/// Whether the name is of something that communicates, operation known or not.
bool names_collective(std::string_view name);

/// Whether a host range of this name stands for one collective call:
/// "record_param_comms", "c10d::allreduce_", "nccl:all_reduce", NVTX's
/// "ncclAllReduce". A user's own range ("## allreduce ##") does not.
bool describes_collective(std::string_view name);

}  // namespace reprise
