// What a caller of the optimizer may set.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/cost_model.h"
#include "data/plan/plan.h"
#include "data/progress.h"
#include "data/result.h"

namespace reprise {

/// Runs a plan's units, with no communication beside them, and returns the
/// prices fitted anew with what was learnt. May fail: the search then goes on
/// with the prices it has.
using Measure = std::function<Result<CostModel>(const Plan&)>;

struct OptimizeOptions {
  /// Names of the passes that run; empty: all that need not be asked for. What
  /// no pass edits stays as recorded.
  std::vector<std::string> only = {};
  /// Of the search; measuring does not count.
  std::optional<std::chrono::nanoseconds> time_limit = {};
  /// Plans lowered and replayed by each pass that searches among plans.
  uint64_t evaluations = 300;
  /// What passes try in models of their own, such as schedules of fixed units
  /// and nodes of a MIP.
  uint64_t inner_evaluations = 60000;
  int64_t memory_limit_bytes = 0;  ///< Arena of the schedule; 0 = none.
  uint64_t seed = 0;
  int threads = 1;
  /// Calls of Measure for the plan's own fusion, at most; up to two of them
  /// again for dots with epilogues.
  int measure_rounds = 3;
  std::function<bool()> should_stop = {};
  ProgressWatcher watch = {};  ///< Told how far the search is.
};

}  // namespace reprise
