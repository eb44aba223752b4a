// Kernels that hold messages with several peers, as those of a ring: whom each
// member of a matched one waits for.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "replay/collectives/collective_calls.h"

namespace reprise {

/// `[member]`: the ranks that it receives from, ascending. Empty where a member
/// does not say it, or one receives what none of them sends to it: then calls
/// of other exchanges were taken for one. `members`: places in
/// CollectiveCalls::calls, by rank.
std::vector<RankGroup> senders_of(std::span<const uint32_t> members,
                                  const CollectiveCalls& calls);

}  // namespace reprise
