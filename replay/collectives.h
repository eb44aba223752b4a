// Collectives of an imported trace, matched across ranks: the same call on
// every member of its group, so that waiting can be told from transferring.
//
// Model. A member is a kCollective event (on a device stream where there is
// one, else on a host thread). Calls of one communicator are matched by their
// recorded sequence, else by order; without a communicator, by (operation,
// group size, bytes, order). A collective's transfer begins when its last
// member arrives; a member that came earlier waited (NCCL kernels spin).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/trace/trace.h"

namespace reprise {

/// One rank's part in a collective.
struct CollectiveMember {
  uint32_t rank = 0;
  uint32_t event = 0;  ///< Index in Trace::events.
};

struct MatchedCollective {
  std::string op;            ///< As CollectiveInfo::op; "" unknown.
  std::string communicator;  ///< "" unknown.
  int64_t sequence = -1;     ///< In its communicator: recorded, else counted.
  int64_t bytes = 0;  ///< Payload by the convention of nccl-tests' "size".
  std::vector<uint32_t> group;    ///< Global ranks, ascending.
  std::vector<uint32_t> missing;  ///< Of the group, without an event here.
  std::vector<CollectiveMember> members;  ///< By rank; never empty.
};

struct CollectiveMatching {
  std::vector<MatchedCollective> collectives;  ///< By first member's start.
  std::vector<int32_t> of_event;  ///< [event] place in `collectives`, or -1.
  /// What could not be matched, and repairs, in whole sentences.
  std::vector<std::string> notes;
};

/// Matches by sequence and order alone, never by time, so it may come before
/// clock alignment. Host-side descriptions (record_param_comms) give device
/// events what they lack. Groups of one rank and missing ranks are legal.
CollectiveMatching match_collectives(const Trace& trace);

/// Wait and transfer of one collective, on aligned clocks (to_rank0_ns).
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
