// Which ranks' device streams carry collectives of one group, where nothing
// recorded says: of Nsight's reports without payloads, of old Kineto.
#pragma once

#include <vector>

#include "replay/collectives/collective_calls.h"

namespace reprise {

/// Gives calls on device streams that tell no communicator, group or sequence a
/// group and, in it, a sequence.
///
/// Model. A communicator has a stream of its own on each rank. Streams with the
/// same calls belong together where all ranks leave each call at one time, as
/// far as their clocks allow, which may be apart and drift (stream_clocks.h);
/// they are of different groups where some calls end far apart.
///
/// Does nothing unless some calls of streams apart cannot be one, as a rank had
/// left before the other came or long before the other left by clocks that are
/// known, every stream belongs with one of another rank,
/// and no pair leaves the question open: else calls are what their order makes
/// of them. Requires:
/// `calls.calls` sorted. **Cost** calls × groups.
void infer_stream_groups(CollectiveCalls& calls,
                         const std::vector<RankInfo>& ranks);

}  // namespace reprise
