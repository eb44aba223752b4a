// The collective calls of a trace, rank by rank, each with everything that was
// recorded about it: on the device event itself, in its name, and in the host
// ranges that it was launched from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/trace/trace.h"

namespace reprise {

struct CollectiveCall {
  uint32_t event = 0;  ///< Index in Trace::events.
  uint32_t rank = 0;
  bool device = false;  ///< Ran on a device's stream.
  int32_t step = -1;
  int32_t unit = -1;     ///< Of our own trainer; the same on every rank.
  int64_t order_ns = 0;  ///< Launch where it is known, else start.
  CollectiveKind kind = CollectiveKind::kUnknown;
  int32_t communicator = -1;  ///< In CollectiveCalls::communicators.
  int32_t group = -1;         ///< In CollectiveCalls::groups.
  int64_t group_size = -1;
  int64_t sequence = -1;
  int64_t bytes = 0;   ///< By nccl-tests' convention; 0 unknown.
  bool exact = false;  ///< Both what goes in and what comes out was recorded.
  int32_t peer = -1;
};

struct CollectiveCalls {
  std::vector<CollectiveCall> calls;  ///< By (rank, order_ns, event).
  std::vector<std::string> communicators;
  std::vector<std::vector<uint32_t>> groups;  ///< Each ascending.
  /// Repairs and what stays unknown, in whole sentences.
  std::vector<std::string> notes;
};

/// What one rank or the whole trace knows of a communicator is known of all its
/// calls. Cost: O(events log events).
CollectiveCalls collective_calls(const Trace& trace);

}  // namespace reprise
