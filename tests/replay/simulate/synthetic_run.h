// Schedules shaped like a training step, and traces of them made by replay
// under known prices: what a fit must recover.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "costmodel/cost_model.h"
#include "data/schedule/schedule.h"
#include "data/trace/trace.h"

namespace reprise {

struct StepShape {
  int layers = 12;
  int64_t ranks = 2;
  int64_t bucket_bytes = 0;  ///< 0: one collective a gradient.
  bool serial = false;       ///< Each update right after its collective.
};

/// Forward, backward with gradients of 1 KB to 1 MB, one update a gradient
/// after all backward units. Collectives as soon as their bucket is full.
Schedule training_schedule(const StepShape& shape);

/// Prices for it: units by key, a link of 120 MB/s with `burst_bytes` credit.
CostModel true_costs(const Schedule& schedule, double burst_bytes);

struct RunOptions {
  int steps = 12;
  double noise = 0;  ///< Relative standard deviation of a duration.
  uint32_t seed = 1;
  bool solo = false;  ///< Collectives take no time.
  std::vector<int64_t> clock_offset_ns =
      {};  ///< [rank], subtracted from its stamps.
  std::vector<double> clock_drift_ppm = {};  ///< [rank]
};
/// A trace of `schedule` under `costs`; step 0 is a warm-up.
Trace run_trace(const Schedule& schedule, const CostModel& costs,
                const RunOptions& options);

}  // namespace reprise
