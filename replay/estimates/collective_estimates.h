// What each distinct collective of a recorded run costs without the waiting in
// it: a kernel of NCCL spins until its last peer has come, so that its recorded
// time is mostly the lateness of others (pytorch/pytorch#194908).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "data/collective/collective.h"
#include "data/primitive_type.h"
#include "replay/clocks/aligned_trace.h"

namespace reprise {

/// Collectives of one kind, size, type and group.
struct CollectiveEstimate {
  CollectiveKind kind = CollectiveKind::kUnknown;
  std::vector<uint32_t> group;  ///< Global ranks, ascending.
  std::optional<PrimitiveType> type = std::nullopt;
  int64_t bytes = 0;        ///< As MatchedCollective::bytes.
  int64_t transfer_ns = 0;  ///< Median over the calls.
  /// Median over calls and members of what was recorded, waits and all.
  int64_t recorded_ns = 0;
  int64_t calls = 0;
  /// Of the calls: those in which members lack, whose transfer is at most this.
  int64_t incomplete = 0;
};

/// The transfer of one call: from its last member's arrival to its completion
/// where all members share the clock of one host; else the shortest stay of a
/// member, which no clock enters and which the last to arrive has.
/// Requires: aligned clocks.
int64_t transfer_ns(const MatchedCollective& collective, const Trace& frame);

/// By kind, group, type and bytes; messages, barriers and what has no size are
/// left out. Cost: O(members log members).
std::vector<CollectiveEstimate> estimate_collectives(const AlignedTrace& trace);

}  // namespace reprise
