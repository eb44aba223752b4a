// Which cores each rank should compute on.
#pragma once

#include <vector>

#include "data/result.h"
#include "runtime/process/process_group.h"

namespace reprise {

/// Deals the cores that this process may use to the ranks of the same machine,
/// in order, to each as many; none when there are fewer cores than ranks. Hosts
/// that are namespaces of one machine count as one: they share its cores.
/// Collective.
Result<std::vector<int>> choose_cores(ProcessGroup& group);

}  // namespace reprise
