// Which recorded names are of collectives, and what an operation implies; the
// operation's own word is collective_word's.
#pragma once

#include <string_view>

namespace reprise {

/// Whether the name is of something that communicates, operation known or not.
bool names_collective(std::string_view name);

/// Whether a host range of this name stands for one collective call:
/// "record_param_comms", "c10d::allreduce_", "nccl:all_reduce", NVTX's
/// "ncclAllReduce". A user's own range ("## allreduce ##") does not.
bool describes_collective(std::string_view name);

/// Whether no rank may leave the operation before all have entered it.
bool joins_all_ranks(std::string_view op);

/// Whether every rank states the same size of one call.
bool has_one_size(std::string_view op);

/// Bytes on the wire per byte of payload and rank over the algorithm's time, as
/// nccl-tests' bus bandwidth has it; 0 when the operation has no such factor.
double bus_factor(std::string_view op, double ranks);

}  // namespace reprise
