#include "replay/run_model.h"

#include <algorithm>
#include <map>

#include "costmodel/fit_costs.h"
#include "replay/replay.h"

namespace reprise {

Result<int64_t> measured_step_time(const Trace& trace) {
  struct Step {
    size_t ranks = 0;
    int64_t time_ns = 0;
  };
  std::map<int32_t, Step> steps;
  for (const StepMark& mark : trace.steps) {
    if (mark.warmup) continue;
    Step& step = steps[mark.step];
    ++step.ranks;
    step.time_ns = std::max(step.time_ns, mark.end_ns - mark.start_ns);
  }
  std::vector<int64_t> times;
  for (const auto& [number, step] : steps) {
    if (step.ranks == trace.ranks.size()) times.push_back(step.time_ns);
  }
  if (times.empty()) {
    return fail(ErrorKind::kInvalid,
                "trace: no step after the warm-up is complete on all ranks");
  }
  std::sort(times.begin(), times.end());
  return (times[(times.size() - 1) / 2] + times[times.size() / 2]) / 2;
}

Result<RunModel> model_run(Trace trace, const Schedule& recorded,
                           std::span<const Measurement> measurements) {
  const auto solo = trace.environment.find("solo");
  if (solo != trace.environment.end() && solo->second == "1") {
    return fail(ErrorKind::kInvalid,
                "trace: a solo run has no communication to fit; record one "
                "with `reprise train --trace`");
  }
  RunModel model;
  model.clocks = align_clocks(trace);
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
