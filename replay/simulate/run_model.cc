#include "replay/simulate/run_model.h"

#include <algorithm>

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

}  // namespace reprise
