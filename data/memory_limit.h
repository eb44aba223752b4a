// How much memory one input may take.
#pragma once

#include <cstdint>

namespace reprise {

/// What this process may still allocate: the least of what the system has
/// available, what its control group and its own limit of addresses allow.
/// Source: proc(5), cgroups(7), getrlimit(2). Cost: three small files.
uint64_t memory_limit_bytes();

}  // namespace reprise
