// From a recorded run to prices: clocks aligned, costs fitted, and the recorded
// plan replayed against its own measurement.
#pragma once

#include <span>

#include "costmodel/cost_model.h"
#include "data/result.h"
#include "data/schedule/schedule.h"
#include "data/trace/trace.h"
#include "replay/clocks/aligned_trace.h"

namespace reprise {

struct RunModel {
  CostModel costs;
  /// Median step of the recorded run without `tracing_ns`: of those whose
  /// devices were not recorded where it has some and they are the faster.
  int64_t measured_ns = 0;
  int64_t predicted_ns = 0;  ///< Its replay under `costs`.
  /// Of the measurement, what the fit alone missed (ranks that wait for each
  /// other's noise …): signed; if positive, it stands in costs.unexplained_ns.
  int64_t missed_ns = 0;
  /// By how much recording slowed the median step; `costs` are without it. What
  /// events cost a thread that computes is off its units; what recording
  /// devices costs is off the gaps, as all of it is taken for delays between
  /// kernels.
  int64_t tracing_ns = 0;
};

/// Requires: `whole` is the schedule that `run` ran. Prices are of its parts
/// (TimedSchedule), and of the units that fall into them.
/// Errors: as fit_costs; kInvalid for a solo run.
Result<RunModel> model_run(const AlignedTrace& run, const Schedule& whole,
                           std::span<const Measurement> measurements = {});

/// Refuses a calibration under which the replay of the recorded run misses its
/// measurement by clearly more than without: by 2 % of the step, which is about
/// what replays of one program recorded twice differ by (README's table).
/// Errors: kInvalid with both misses.
Status check_calibration(const RunModel& without, const RunModel& with);

}  // namespace reprise
