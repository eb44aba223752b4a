// Which step calls belong to, where the trace marks steps beside its events.
#pragma once

#include <vector>

#include "data/trace/trace.h"
#include "replay/collectives/collective_calls.h"

namespace reprise {

/// Gives calls without a step the one in which their rank made them: that in
/// which it launched them, or of calls on a host in which they began. Calls on
/// a device of which no launch is known stay without, as a device may be behind
/// its host; so do those of steps that ranks begin half a step apart or more by
/// the time of day, which can be of other numbers. Requires: `calls.calls`
/// sorted.
void give_steps(CollectiveCalls& calls, const Trace& frame);

}  // namespace reprise
