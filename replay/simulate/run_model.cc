#include "replay/simulate/run_model.h"

#include <algorithm>
#include <cmath>

#include "costmodel/fit_costs.h"
#include "data/trace/step_times.h"
#include "replay/simulate/replay.h"

namespace reprise {
namespace {

/// All that a step waits while it neither computes nor transfers, `factor` as
/// long.
CostModel with_gaps(const CostModel& costs, double factor) {
  CostModel changed = costs;
  for (double CostModel::*gap :
       {&CostModel::dispatch_ns, &CostModel::feed_ns,
        &CostModel::compute_wake_ns, &CostModel::communication_wake_ns,
        &CostModel::communication_gap_ns, &CostModel::unexplained_ns,
        &CostModel::step_overhead_ns})
    changed.*gap *= factor;
  return changed;
}

/// Shortens gaps until the recorded plan takes what its steps took while
/// devices were not recorded: CUPTI costs a launch 1.0 to 1.8 us (H100,
/// tests/gpu/results of 94ed3c1). Where no gap is left, the rest stays. Cost:
/// 20 replays.
void take_off_tracing(const Schedule& recorded, RunModel& model) {
  const CostModel costs = model.costs;
  double least = 0, most = 1;
  for (int halving = 0; halving < 20; ++halving) {
    const double factor = (least + most) / 2;
    model.costs = with_gaps(costs, factor);
    const int64_t step_ns =
        replay_step_time(price_schedule(recorded, model.costs));
    (step_ns > model.measured_ns ? most : least) = factor;
  }
}

}  // namespace

Result<RunModel> model_run(const AlignedTrace& run, const Schedule& recorded,
                           std::span<const Measurement> measurements) {
  const Trace& trace = run.trace();
  if (is_solo(trace)) {
    return fail(ErrorKind::kInvalid,
                "trace: a solo run has no communication to fit; record one "
                "with `reprise train --trace`");
  }
  RunModel model;
  const Result<int64_t> measured = measured_step_time(trace);
  if (!measured) return pass(measured.error());
  model.measured_ns = *measured;
  Result<CostModel> costs = fit_costs(trace, recorded, measurements);
  if (!costs) return pass(costs.error());
  model.costs = *std::move(costs);
  const auto predict = [&] {
    return replay_step_time(price_schedule(recorded, model.costs));
  };
  // What the recording cost is in both.
  model.missed_ns = model.measured_ns - predict();
  if (model.missed_ns > 0) {
    model.costs.unexplained_ns += static_cast<double>(model.missed_ns);
  }
  if (const auto bare = bare_steps(trace);
      bare && bare->median_ns < model.measured_ns) {
    model.tracing_ns = model.measured_ns - bare->median_ns;
    model.measured_ns = bare->median_ns;
    take_off_tracing(recorded, model);
  }
  model.predicted_ns = predict();
  return model;
}

Status check_calibration(const RunModel& without, const RunModel& with) {
  constexpr double kWorse = 0.02;
  const auto missed = [](const RunModel& model) {
    return static_cast<double>(model.missed_ns) /
           static_cast<double>(std::max<int64_t>(1, model.measured_ns));
  };
  if (std::abs(missed(with)) <= std::abs(missed(without)) + kWorse) return {};
  return fail(ErrorKind::kInvalid,
              "the calibration is refused: under it the recorded run took "
              "{:+.1f} % against its replay, without it {:+.1f} %; was the "
              "machine busy?",
              100 * missed(with), 100 * missed(without));
}

}  // namespace reprise
