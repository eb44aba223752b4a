// Collectives of an imported trace, matched across ranks: the same call on
// every member of its group, so that waiting can be told from transferring.
//
// Model. A member is a kCollective event (on a device stream where there is
// one, else on a host thread). Calls of one communicator are matched by their
// recorded sequence, else by order, as messages of two ranks always are
// (kernels that hold several messages meet where these do); without a
// communicator, by (operation, group size, bytes, order). Where ranks recorded
// different numbers of calls (sampled or cut traces), or of different steps,
// order says nothing: only recorded sequences, steps that agree and calls that
// are one of a kind are matched, the rest is counted. A collective's transfer
// begins when its last member arrives; a member that came earlier waited (NCCL
// kernels spin).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/trace/trace.h"
#include "replay/collectives/collective_calls.h"

namespace reprise {

/// One rank's part in a collective.
struct CollectiveMember {
  uint32_t rank = 0;
  uint32_t event = 0;  ///< Index in Trace::events, over all ranks.
  int64_t start_ns = 0, end_ns = 0;  ///< As recorded.
  int64_t still_ns = kNeverStill;    ///< As find_stand_stills.
};

struct MatchedCollective {
  /// kSend: with its receive; of kernels of several messages too.
  CollectiveKind kind = CollectiveKind::kUnknown;
  std::string communicator;                          ///< "" unknown.
  std::optional<PrimitiveType> type = std::nullopt;  ///< Of an element.
  int64_t sequence = -1;  ///< In its communicator: recorded, else counted.
  /// Payload by the convention of nccl-tests' "size": the larger of what goes
  /// into a rank and what comes out of it (all-gather: the gathered whole;
  /// reduce-scatter: what is reduced; all-to-all: all that one rank sends), of
  /// the rank where that is most. 0 unknown.
  int64_t bytes = 0;
  std::vector<uint32_t> group;    ///< Global ranks, ascending.
  int64_t group_size = -1;        ///< May exceed `group` where that is unknown.
  std::vector<uint32_t> missing;  ///< Of the group, without an event here.
  std::vector<CollectiveMember> members;  ///< By rank; never empty.
  int32_t sender = -1;  ///< Rank that sends, of a send with its receive.
  /// A send with one back, or a permutation of two: its members meet.
  bool both_ways = false;
  /// Of messages with several peers: in CollectiveMatching::exchanges.
  int32_t exchange = -1;
  bool on_device = false;   ///< All members ran on devices' streams.
  bool by_trainer = false;  ///< Ours: a unit of a step.

  /// Whether ranks of its group have no event here, who they may be: waiting
  /// for them cannot be told from its transfer.
  bool lacks_ranks() const {
    return !missing.empty() ||
           (sender < 0 && group_size > static_cast<int64_t>(members.size()));
  }
};

struct CollectiveMatching {
  std::vector<MatchedCollective> collectives;  ///< By first member's start.
  struct EventPlace {
    uint32_t event = 0, collective = 0;  ///< Its place in `collectives`.
    auto operator<=>(const EventPlace&) const = default;
  };
  std::vector<EventPlace> of_event;  ///< Of all members, by event.
  /// `[exchange][member]`: the ranks that it receives from, ascending.
  std::vector<std::vector<RankGroup>> exchanges;
  /// What could not be matched, and repairs, in whole sentences.
  std::vector<std::string> notes;

  /// The event's place in `collectives`, or -1.
  int32_t place_of(uint32_t event) const;
};

/// Matches by sequence and order alone, never by time, so it may come before
/// clock alignment. Host-side descriptions (record_param_comms) give device
/// events what they lack. Groups of one rank and missing ranks are legal.
CollectiveMatching match_collectives(CollectiveCalls calls);
CollectiveMatching match_collectives(const Trace& trace);

/// Wait and transfer of one collective, on aligned clocks (to_rank0_ns). Where
/// members are missing, waits are at least and transfers at most this.
struct CollectiveTimes {
  std::vector<int64_t> wait_ns;  ///< [member] before the last one arrived.
  int64_t arrival_ns = 0;        ///< Rank 0's time of the last arrival.
  int64_t transfer_ns = 0;       ///< Last arrival to last end.
  /// nccl-tests' bus bandwidth; 0 when bytes, group or operation are unknown.
  double bus_bandwidth_bytes_per_s = 0;
};
CollectiveTimes times_of(const MatchedCollective& collective,
                         const Trace& trace);

}  // namespace reprise
