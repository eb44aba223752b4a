// Traces for tests: a small readable one, and random ones that use every field.
#pragma once

#include <cstdint>

#include "data/trace/trace.h"

namespace reprise::testing {

/// Two ranks, two streams each, two steps of three events.
Trace small_trace();

/// The small trace with everything that imported traces add.
Trace detailed_trace();

/// `events` events over `ranks` ranks with extreme values strewn in; the same
/// for a seed.
Trace random_trace(uint64_t seed, size_t events, uint32_t ranks);

}  // namespace reprise::testing
