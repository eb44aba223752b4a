// What every trace holds to, whoever made it.
#pragma once

#include <string>

#include "data/result.h"
#include "data/trace/trace.h"

namespace reprise {

/// The order of Trace::dependencies: (rank, before, after).
bool is_before(const EventDependency& a, const EventDependency& b);

/// The first rule that an event breaks, beside the order; empty when none.
std::string fault_of(const Event& event, const Trace& trace);

/// Checks what readers rely on: ids in range, no event that ends before it
/// starts, finite numbers, groups and everything else sorted as trace.h says.
/// Errors: kInvalid, naming the place.
Status validate_trace(const Trace& trace);

}  // namespace reprise
