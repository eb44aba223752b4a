// Which core each rank's compute thread should live on.
#pragma once

#include "data/result.h"
#include "runtime/process/process_group.h"

namespace reprise {

/// Deals the cores that this process may use to the ranks of the same machine,
/// in order; -1 when there are fewer cores than ranks. Hosts that are
/// namespaces of one machine count as one: they share its cores. Collective.
Result<int> choose_core(ProcessGroup& group);

}  // namespace reprise
