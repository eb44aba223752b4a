// Whom messages meet of which nothing recorded says (Nsight's reports without
// payloads), by the streams that leave all of theirs at one time.
#pragma once

#include <vector>

#include "replay/collectives/collective_calls.h"
#include "replay/collectives/stream_clocks.h"

namespace reprise {

/// Gives messages a peer, and kernels that may be any messages a kind: an
/// exchange, each side of which waits for the other.
///
/// Model. Two ranks that send to each other do so on a stream of its own each,
/// or on one for each direction, on which neither leaves before the other. Such
/// streams are told from those of other ranks by clocks that are known, that
/// agree as they are, or on which two pairs of streams at least meet: of ranks
/// that are not neighbours what comes later one way comes earlier the other.
///
/// Does nothing to streams of which three leave together, as of an all-to-all.
/// **Cost** calls × pairs of streams.
void pair_message_streams(const std::vector<CallStream>& streams,
                          StreamClocks& clocks, CollectiveCalls& calls);

}  // namespace reprise
