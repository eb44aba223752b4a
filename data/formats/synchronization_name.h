// What a synchronization is called, whichever profiler saw it: one table for
// the name and the number that files have for each kind.
#pragma once

#include <cstdint>
#include <string_view>

#include "data/trace/trace.h"

namespace reprise {

/// CUPTI's words, as Kineto writes them: "Event Sync", "Stream Wait Event",
/// "Stream Sync", "Context Sync"; "Sync" when unknown.
std::string_view synchronization_name(SynchronizationKind kind);
/// kUnknown for any other name.
SynchronizationKind synchronization_of_name(std::string_view name);
/// Of CUPTI's number; kUnknown for any other.
/// Source: CUpti_ActivitySynchronizationType in cupti_activity.h.
SynchronizationKind synchronization_of_cupti(int64_t type);

}  // namespace reprise
