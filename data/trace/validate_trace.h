// What every trace holds to, whoever made it.
#pragma once

#include "data/result.h"
#include "data/trace/trace.h"

namespace reprise {

/// The order of Trace::dependencies: (rank, before, after).
bool is_before(const EventDependency& a, const EventDependency& b);

/// Checks what readers rely on: ids in range, no event that ends before it
/// starts, finite numbers, groups and everything else sorted as trace.h says.
/// Errors: kInvalid, naming the place.
Status validate_trace(const Trace& trace);

}  // namespace reprise
