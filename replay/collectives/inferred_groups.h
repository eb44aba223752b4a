// Which process group calls belong to that tell none (Gloo's), of the groups
// that the trace lists.
#pragma once

#include "replay/collectives/collective_calls.h"

namespace reprise {

/// Gives calls without communicator and group a group and, in it, a sequence.
///
/// Model. All members of a collective are in it at one time, and leave it at
/// about one time. Calls of one (operation, bytes, type) belong to the groups
/// that cover the ranks which made them, call by call in order, such that no
/// member left before the last one came; of several such covers to the one with
/// the largest groups that is about as tight as the tightest. Where no groups
/// cover the ranks, as calls of the kind go to several, the same is asked of
/// each call by itself.
///
/// Does nothing where fewer than two groups are listed or some of their ranks
/// are missing. Requires: `calls.calls` sorted, times of one clock. **Cost**
/// calls × groups of a rank.
void infer_groups(CollectiveCalls& calls);

}  // namespace reprise
