// The simulation behind replay_step: two streams a rank, events in time order.
//
// Work is kept in 1/1024 ns and rates in 1/1024, all integers, so that a replay
// is the same on every machine. A task is rebased only when its rate changes.
// Internal to replay.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "replay/simulate/replay.h"

namespace reprise {

/// Why a task began when it did: the task whose end let it begin.
struct Cause {
  int32_t unit = -1;  ///< -1: the start of the step.
  uint32_t rank = 0;  ///< Index in the simulated ranks.
};

/// What happened to one unit on one simulated rank.
struct TaskRecord {
  /// Compute: before dispatch. Collective: arrival of this rank.
  int64_t begin_ns = 0;
  /// Compute: after dispatch. Collective: the transfer's start.
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  Cause cause;  ///< Collective: of the rank that arrived last.
};

/// Ranks that behave alike share one simulated rank.
struct RankClasses {
  std::vector<uint32_t> class_of;  ///< [rank]
  std::vector<double> factor;      ///< [class]
  /// Members of each collective by place in the communication order; empty: all
  /// classes.
  std::vector<std::vector<std::vector<uint32_t>>> groups;
};
RankClasses fold_ranks(const PricedSchedule& priced);

/// Runs one step; `records` is null or `[class][unit]`, filled. Returns the end
/// of the last task, step overhead included.
int64_t simulate(const PricedSchedule& priced, const RankClasses& classes,
                 std::vector<std::vector<TaskRecord>>* records);

}  // namespace reprise
