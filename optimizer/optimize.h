// The joint search over plans: operator fusion, tensor fusion and order, scored
// by replay, certified by a bound, never predicted worse than the recorded plan
// or, with all families of moves, than a baseline (if those fit into memory);
// one of those is the plan where search gains too little to tell from noise.
//
// For a fixed number of evaluations and a fixed cost model the plan is the same
// bytes for a seed and any number of threads. A time limit or a stop ends the
// search early with the best plan so far.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/cost_model.h"
#include "data/hlo/module.h"
#include "data/plan/plan.h"
#include "data/result.h"

namespace reprise {

/// Runs a plan's units, with no communication beside them, and returns the
/// prices fitted anew with what was learnt. May fail: the search then goes on
/// with the prices it has.
using Measure = std::function<Result<CostModel>(const Plan&)>;

struct OptimizeOptions {
  /// Families of moves; others stay recorded, but where buckets change without
  /// moves of order, compute runs eagerly, updates last, as that of `ddp` does.
  bool fusion = true, buckets = true, order = true;
  /// Of the search; measuring does not count.
  std::optional<std::chrono::nanoseconds> time_limit = {};
  /// Plans lowered and replayed in the bucket search.
  uint64_t evaluations = 300;
  /// Schedules and MIP nodes in the order search.
  uint64_t order_evaluations = 60000;
  int64_t memory_limit_bytes = 0;  ///< Arena of the schedule; 0 = none.
  uint64_t seed = 0;
  int threads = 1;
  /// Calls of Measure for the plan's own fusion, at most; up to two of them
  /// again for dots with epilogues.
  int measure_rounds = 3;
  std::function<bool()> should_stop = {};
};

struct OptimizeResult {
  Plan plan;                     ///< With `predicted`, seed and evaluations.
  std::vector<std::string> log;  ///< What each stage gained; for people.
  double seconds = 0;
  uint64_t evaluations = 0;
};

/// Errors: kInfeasible when no plan fits the memory limit; those of lowering
/// the program.
Result<OptimizeResult> optimize(const InlinedModule& inlined,
                                const Plan& recorded, const CostModel& costs,
                                const OptimizeOptions& options = {},
                                const Measure& measure = {});

/// A baseline as a plan (optimizer/baselines/baselines.h names them), with its
/// predicted step time. `+fusion` ones have the groups of `fusion`, so that no
/// gain from fusion is taken for one from communication; without it, those that
/// these costs alone suggest, which are not quite what `optimize` ends with
/// after measuring.
Result<Plan> baseline_plan(
    std::string_view name, const InlinedModule& inlined, int64_t ranks,
    const CostModel& costs,
    const std::optional<std::vector<FusionGroup>>& fusion = {});
const std::vector<std::string>& baseline_names();

}  // namespace reprise
