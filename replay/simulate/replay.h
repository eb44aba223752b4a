// Replays a schedule on all ranks: its graph, decided event by event, with one
// compute and one communication stream a rank, collectives across ranks, and
// mutual slow-down while both streams of a rank are busy.
//
// Model. Each stream runs its units in order. A collective's transfer starts
// when all its ranks have it at the head of their stream with its dependencies
// done. While a transfer is in flight on a rank, the rank's compute unit u runs
// at rate 1/slowdown(u); while any member computes, the transfer runs at rate
// 1/slowdown(collective). A transfer that compute let begin, and a step that
// compute ends, come late by what noise has pulled the ranks apart
// (CostModel::jitter_sqrt_ns). The step ends, on all ranks, when the last
// stream of the last rank is done. Times are integer nanoseconds, ends rounded
// up.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/hlo/module.h"
#include "data/result.h"
#include "replay/graph/priced_schedule.h"
#include "replay/simulate/critical_path.h"
#include "replay/simulate/what_if.h"

namespace reprise {

/// Times of one unit on one rank within the replayed step, from the step's
/// start.
struct UnitTime {
  int64_t start_ns = 0, end_ns = 0;
  /// Collectives: from start_ns until the last rank arrived.
  int64_t wait_ns = 0;
};

struct Replay {
  int64_t step_time_ns = 0;                  ///< Maximum over ranks.
  std::vector<std::vector<UnitTime>> times;  ///< [rank][unit]
  std::vector<PathEntry> critical_path;  ///< In time order; covers the step.
  PathSources sources;
};

/// Replays one step (barrier at its end). Ranks that do the same are simulated
/// once. Cost: O(units x R log R) for compute, O(collectives x R^2) for R
/// distinct ranks.
Replay replay_step(const PricedSchedule& priced);
/// The same under what-ifs; `module` (null: unit names only) names the ops of
/// units. Errors: as apply_what_if.
Result<Replay> replay_step(const PricedSchedule& priced, const Module* module,
                           std::span<const WhatIf> what_ifs);
/// The step time alone, for search: same number, no timeline.
int64_t replay_step_time(const PricedSchedule& priced);

}  // namespace reprise
