// Which ranks a communicator holds that tells only its name and, maybe, how
// many they are (NCCL's calls do).
#pragma once

#include "replay/collectives/collective_calls.h"

namespace reprise {

/// Gives calls of a communicator without a group the ranks that call it,
/// ascending as NCCL's numbers in it are: where these are as many as it holds
/// or, where nobody says how many, where each message that one of them sends by
/// those numbers is awaited by the other.
void gather_communicators(CollectiveCalls& calls);

}  // namespace reprise
