#include "replay/simulate/run_model.h"

#include <algorithm>
#include <cmath>

#include "costmodel/fit_costs.h"
#include "data/trace/step_times.h"
#include "replay/simulate/replay.h"

namespace reprise {

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
  model.missed_ns = model.measured_ns - predict();
  if (model.missed_ns > 0) {
    model.costs.unexplained_ns += static_cast<double>(model.missed_ns);
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
