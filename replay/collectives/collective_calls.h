// The collective calls of a trace, rank by rank, each with everything that was
// recorded about it: on the device event itself, in its name, and in the host
// ranges that it was launched from.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "data/trace/trace_by_rank.h"
#include "replay/collectives/group_numbers.h"

namespace reprise {

/// Of calls that are no posted messages.
inline constexpr int64_t kNeverStill = std::numeric_limits<int64_t>::min();

/// Of a kernel's messages: whom it sends to and receives from, each once.
struct ExchangePeers {
  std::vector<int32_t> to, from;
  bool in_group = false;  ///< Counted in the call's group.
  auto operator<=>(const ExchangePeers&) const = default;
};

struct CollectiveCall {
  uint32_t event = 0;  ///< Its number over all ranks.
  uint32_t rank = 0;
  uint32_t stream = 0;  ///< In Trace::streams.
  int64_t start_ns = 0, end_ns = 0;
  bool device = false;  ///< Ran on a device's stream.
  int32_t step = -1;
  int32_t unit = -1;     ///< Of our own trainer; the same on every rank.
  int64_t order_ns = 0;  ///< Launch where it is known, else start.
  CollectiveKind kind = CollectiveKind::kUnknown;
  int32_t communicator = -1;  ///< In CollectiveCalls::communicators.
  int32_t group = -1;         ///< In CollectiveCalls::groups.
  int64_t group_size = -1;
  int64_t sequence = -1;
  std::optional<PrimitiveType> type = std::nullopt;  ///< Of an element.
  int64_t bytes = 0;   ///< By nccl-tests' convention; 0 unknown.
  bool exact = false;  ///< Both what goes in and what comes out was recorded.
  /// `bytes` are what NCCL's call counts, or the rank gives of what is
  /// gathered.
  bool part = false;
  int32_t peer = -1;
  bool peer_in_group = false;  ///< `peer` is counted in a group not known.
  /// Messages of one kernel: sends and receives, which the other side counts
  /// among its own kernels whatever is in them. `kind` is unknown where they
  /// have several peers, or one that is not known.
  bool batched = false;
  bool both_ways = false;  ///< Batched, with one peer: a send and a receive.
  bool lone = false;       ///< Batched, a message by itself.
  /// Batched, with a few peers, all of them known: in
  /// CollectiveCalls::exchanges.
  int32_t exchange = -1;
  /// As find_stand_stills.
  int64_t still_ns = kNeverStill;
};

struct CollectiveCalls {
  std::vector<CollectiveCall> calls;  ///< By (rank, order_ns, event).
  std::vector<std::string> communicators;
  std::vector<RankGroup> groups;
  std::vector<ExchangePeers> exchanges;
  size_t ranks = 0;  ///< Of the trace.
  /// Repairs and what stays unknown, in whole sentences.
  std::vector<std::string> notes;
};

/// Finds them rank by rank. What one rank or the whole trace knows of a
/// communicator is known of all its calls. Cost: O(events log events).
class CollectiveCallFinder {
 public:
  /// Instead of what was found of the rank before, if it was.
  void add(const RankEvents& events);
  /// `trace`: whose ranks were added; those that were not are now.
  CollectiveCalls finish(const TraceByRank& trace) &&;

 private:
  struct Signature {
    int32_t communicator = -1, group = -1;
  };
  void number_signatures(const Trace& frame);
  CollectiveCall recorded(const Trace& trace, uint32_t index) const;
  void absorb(const Trace& trace, uint32_t index, CollectiveCall& call) const;
  void absorb_ranks(const Trace& trace, const Event& event,
                    CollectiveCall& call) const;
  void absorb_coalesced(const Trace& trace, std::span<const uint32_t> ranges,
                        CollectiveCall& call);
  /// Of a kernel of messages: its peer, or those of an exchange with several.
  void settle_peers(const std::set<int32_t>& to, const std::set<int32_t>& from,
                    bool in_group, CollectiveCall& call);
  static void absorb_operator(const Trace& trace, uint32_t made_by,
                              CollectiveCall& call);

  std::vector<std::string> communicators_;
  std::vector<RankGroup> groups_;
  std::map<ExchangePeers, int32_t> exchanges_;  ///< Numbered from 0.
  std::vector<Signature> signatures_;           ///< [Trace::collectives]
  bool numbered_ = false;
  /// By rank; `event` counts from the rank's first.
  std::map<uint32_t, std::vector<CollectiveCall>> by_rank_;
};

}  // namespace reprise
