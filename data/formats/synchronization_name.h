// What a synchronization is called on a timeline, whichever profiler saw it.
#pragma once

#include <string_view>

#include "data/trace/trace.h"

namespace reprise {

/// CUPTI's words, as Kineto writes them: "Event Sync", "Stream Wait Event",
/// "Stream Sync", "Context Sync"; "Sync" when unknown.
std::string_view synchronization_name(SynchronizationKind kind);

}  // namespace reprise
