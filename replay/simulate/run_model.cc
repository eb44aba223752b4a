#include "replay/simulate/run_model.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "costmodel/fit_costs.h"
#include "data/schedule/timed_schedule.h"
#include "data/trace/recording_cost.h"
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

/// Takes off units what each one's event cost the thread that ran it, and off
/// the measured step what its replay gains by that. A step of 308 units took
/// 24 us, recorded 35.6, of which this takes 7 off (dlrm of jax_step_bench.py).
void take_off_events(int64_t event_ns, const Schedule& recorded,
                     RunModel& model) {
  if (event_ns == 0) return;
  CostModel& costs = model.costs;
  const auto step_ns = [&] {
    return replay_step_time(price_schedule(recorded, costs));
  };
  const int64_t with_events_ns = step_ns();
  const auto take_off = [&](double& time_ns) {
    time_ns = std::max(0.0, time_ns - static_cast<double>(event_ns));
  };
  for (auto& [key, price] : costs.units) take_off(price.alone_ns);
  take_off(costs.unit_overhead_ns);
  take_off(costs.library.overhead_ns);
  model.tracing_ns = with_events_ns - step_ns();
  model.measured_ns -= model.tracing_ns;
}

/// The parts' prices together, each: [key of the unit that fell into them].
std::map<std::string, UnitPrice> sums_of_parts(const Schedule& whole,
                                               const TimedSchedule& timed,
                                               const CostModel& costs) {
  const PricedSchedule priced = price_schedule(timed.schedule(), costs);
  std::map<std::string, UnitPrice> sums;
  for (uint32_t unit = 0; unit < whole.units.size(); ++unit) {
    const uint32_t first = timed.first_part(UnitId{unit});
    const uint32_t end = first + timed.part_count(UnitId{unit});
    if (end == first + 1) continue;
    UnitPrice& sum = sums[whole.units[unit].key];
    sum = {.source = PriceSource::kMeasured};
    for (uint32_t part = first; part < end; ++part) {
      const Unit& each = timed.schedule().units[part];
      sum.alone_ns += priced.duration_ns[part];
      sum.source = std::max(sum.source, priced.source[part]);
      if (each.stream == Stream::kCompute)
        sum.uncertainty_ns += costs.price(each).uncertainty_ns;
    }
  }
  return sums;
}

/// Prices units that fell into parts, which other plans are searched with
/// whole: so that the recorded plan takes as long with them as with its parts,
/// whose hand-overs and late ranks are then theirs. Cost: 40 replays.
void price_wholes(const Schedule& whole, const TimedSchedule& timed,
                  RunModel& model) {
  if (!timed.has_parts()) return;
  const auto sums = sums_of_parts(whole, timed, model.costs);
  const auto step_ns = [&](double factor) {
    for (const auto& [key, sum] : sums) {
      UnitPrice& price = model.costs.units[key];
      price = sum;
      price.alone_ns *= factor;
    }
    return replay_step_time(price_schedule(whole, model.costs));
  };
  double least = 0, most = 1;
  while (step_ns(most) < model.predicted_ns && most < 1024) most *= 2;
  for (int halving = 0; halving < 30; ++halving) {
    const double factor = (least + most) / 2;
    (step_ns(factor) > model.predicted_ns ? most : least) = factor;
  }
}

}  // namespace

Result<RunModel> model_run(const AlignedTrace& run, const Schedule& whole,
                           std::span<const Measurement> measurements) {
  const Trace& trace = run.trace();
  if (is_solo(trace)) {
    return fail(ErrorKind::kInvalid,
                "trace: a solo run has no communication to fit; record one "
                "with `reprise train --trace`");
  }
  const TimedSchedule timed(whole, trace.environment);
  const Schedule& recorded = timed.schedule();
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
  take_off_events(event_cost_ns(trace), recorded, model);
  if (const auto bare = bare_steps(trace);
      bare && bare->median_ns < model.measured_ns) {
    model.tracing_ns += model.measured_ns - bare->median_ns;
    model.measured_ns = bare->median_ns;
    take_off_tracing(recorded, model);
  }
  model.predicted_ns = predict();
  price_wholes(whole, timed, model);
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
