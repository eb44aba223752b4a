// What the host threads of a rank do themselves: operators and ranges, each
// without the time of what nests in it, calls of the driver and waits among
// these.
#pragma once

#include <cstdint>
#include <vector>

#include "data/trace/trace.h"

namespace reprise {

struct HostOwnTime {
  uint32_t event = 0;  ///< Index in Trace::events.
  int64_t own_ns = 0;
};

/// Of the rank's kHostOp and kAnnotation events on host threads, by stream and
/// start. Cost: O(n log n) in what its host threads did.
std::vector<HostOwnTime> host_work(const Trace& trace, uint32_t rank);

}  // namespace reprise
