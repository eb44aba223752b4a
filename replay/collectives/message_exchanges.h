// Kernels of messages of a communicator in which some have several peers, as of
// a ring, or of a pipeline that sends and receives between two computations in
// one call: which of them meet, and whom each of these waits for.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "replay/collectives/collective_calls.h"

namespace reprise {

/// Kernels that messages tie together, one of a rank.
struct MessageExchange {
  std::vector<uint32_t>
      members;      ///< Places in CollectiveCalls::calls, by rank.
  RankGroup ranks;  ///< Theirs, and of peers of which nothing was recorded.
};

struct MessageExchanges {
  std::vector<MessageExchange> exchanges;
  int64_t unmatched = 0;  ///< Kernels.
};

/// Of `batches`, all batched calls of one communicator, by rank and order. The
/// messages from one rank to another are received in the order in which they
/// are sent; kernels that a chain of messages ties are one exchange. Where
/// recordings differ, only steps are matched in which each message has both
/// ends. None where no kernel has several peers, the peers of one are not
/// known, or nothing matches. **Cost** O(messages log messages).
std::optional<MessageExchanges> match_exchanges(
    std::span<const uint32_t> batches, const CollectiveCalls& calls);

/// `[member]`: the ranks that it receives from, ascending. Empty where a member
/// does not say it, or one receives what none of them sends to it: then calls
/// of other exchanges were taken for one. `members`: places in
/// CollectiveCalls::calls, by rank.
std::vector<RankGroup> senders_of(std::span<const uint32_t> members,
                                  const CollectiveCalls& calls);

}  // namespace reprise
