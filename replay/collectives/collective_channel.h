// Which calls of a channel are one collective: decided by recorded sequence,
// else by order, else by what is the only one of its kind (collectives.h).
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <vector>

#include "replay/collectives/collective_calls.h"

namespace reprise {

/// Calls that are matched among themselves.
struct CollectiveChannel {
  bool pair = false;     ///< Sends of one rank to another, and their receives.
  bool trainer = false;  ///< Ours: a unit of a step is one call everywhere.
  bool device = false;
  bool batched = false;  ///< Kernels of several messages, in either direction.
  bool unknown_peer = false;  ///< Messages that may be to any of several ranks.
  int32_t communicator = -1, group = -1;  ///< As in CollectiveCall.
  uint32_t from = 0, to = 0;  ///< Of a pair; of batches the lower rank first.
  int64_t group_size = -1;
  auto operator<=>(const CollectiveChannel&) const = default;
  bool named() const { return communicator >= 0 || group >= 0 || pair; }
  /// Whether `ranks` ranks are several groups, and nothing says which.
  bool mixes_groups(size_t ranks) const {
    return !named() && !trainer && group_size > 0 &&
           ranks > static_cast<size_t>(group_size);
  }
};
CollectiveChannel channel_of(const CollectiveCall& call,
                             const CollectiveCalls& all);

/// Places in CollectiveCalls::calls, in the order of each rank.
using CallLists = std::map<uint32_t, std::vector<uint32_t>>;

struct ChannelMatches {
  /// Places of the members of each, by rank.
  std::vector<std::vector<uint32_t>> collectives;
  int64_t unmatched = 0;  ///< Calls.
};
/// Cost: O(calls log calls).
ChannelMatches match_channel(const CollectiveChannel& channel,
                             const CallLists& lists,
                             const std::vector<CollectiveCall>& calls);

}  // namespace reprise
