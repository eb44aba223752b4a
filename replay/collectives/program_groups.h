// Which ranks call together where the program tells, by numbers of devices, and
// nothing else does: XLA's profiles with their HLO.
#pragma once

#include <vector>

#include "replay/collectives/collective_calls.h"

namespace reprise {

/// Gives calls of a communicator that is named by its groups
/// (data/collective/device_groups.h) the one with their own rank, devices being
/// ranks in order: unless calls of one group cannot be one, as a member had
/// left before another came, by the clock of one host, or hosts are missing and
/// groups span several. Then devices are others or not known, which is noted,
/// and the calls are of no communicator. **Cost** calls × members of a group.
void take_program_groups(CollectiveCalls& calls,
                         const std::vector<RankInfo>& ranks);

}  // namespace reprise
