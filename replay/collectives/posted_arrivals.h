// When messages arrived that nobody stood waiting for. The range of a message
// that a host thread posts (is_posted_message) lasts until the thread asks for
// it: of a pipeline whose stages have other micro-batches to work on, tens of
// milliseconds after the data came.
#pragma once

#include "replay/collectives/collectives.h"

namespace reprise {

/// Since when each of the rank's posted messages was all its thread was at when
/// its range ended: `still_ns` of `calls`, whose `event` counts from the rank's
/// first. Cost: O(events log events) of a rank that posts messages.
void find_stand_stills(const RankEvents& events,
                       std::vector<CollectiveCall>& calls);

/// Takes messages to be over when they came: behind the one before from the
/// same rank, by what the like of them took whose receiver stood still before
/// they were sent (the median; three at least, else all stays). A receiver that
/// stood still before then did wait to the end of its range. Makes the `end_ns`
/// of receivers earlier. Requires: clocks are aligned. Cost: O(messages log
/// messages).
void settle_posted_messages(CollectiveMatching& matching, const Trace& trace);

}  // namespace reprise
