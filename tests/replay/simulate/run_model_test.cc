#include "replay/simulate/run_model.h"

#include <gtest/gtest.h>

#include <cmath>

#include "costmodel/fit_costs.h"
#include "data/plan/plan.h"
#include "data/schedule/timed_schedule.h"
#include "data/trace/recording_cost.h"
#include "replay/simulate/replay.h"
#include "tests/replay/simulate/synthetic_run.h"
#include "tests/testing/parse_inlined.h"

namespace reprise {
namespace {

double error(int64_t predicted, int64_t measured) {
  return static_cast<double>(predicted) / static_cast<double>(measured) - 1;
}

TEST(ModelRun, ReplaysTheRunItWasFittedOnUnderShiftedClocks) {
  const Schedule schedule = training_schedule({.layers = 6});
  const Trace trace = run_trace(schedule, true_costs(schedule, 64e3),
                                {.steps = 16,
                                 .noise = 0.05,
                                 .seed = 2,
                                 .clock_offset_ns = {0, 5'000'000},
                                 .clock_drift_ppm = {0, 40}});
  const Result<RunModel> model =
      model_run(AlignedTrace::align(trace), schedule);
  ASSERT_TRUE(model.has_value());
  EXPECT_LT(std::abs(error(model->predicted_ns, model->measured_ns)), 0.01);
  const Replay replay = replay_step(price_schedule(schedule, model->costs));
  EXPECT_EQ(replay.step_time_ns, model->predicted_ns);
  EXPECT_NEAR(replay.sources.measured + replay.sources.calibrated +
                  replay.sources.modelled + replay.sources.fitted_gaps() +
                  replay.sources.unexplained,
              1, 1e-9);
  EXPECT_LT(replay.sources.unexplained, 0.01);
}

/// Adds up 256 KiB over two ranks and halves them, eight times over; 4 KiB
/// once, which tells the link's latency.
constexpr const char* kLoop = R"(HloModule loop
add { p = f32[] parameter(0)  q = f32[] parameter(1)  ROOT s = f32[] add(p, q) }
body {
  state = (s32[], f32[65536]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  x = f32[65536] get-tuple-element(state), index=1
  sum = f32[65536] all-reduce(x), replica_groups={{0,1}}, to_apply=add
  half = f32[] constant(0.5)
  halves = f32[65536] broadcast(half), dimensions={}
  mean = f32[65536] multiply(sum, halves)
  ROOT out = (s32[], f32[65536]) tuple(next, mean)
}
condition {
  state = (s32[], f32[65536]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  eight = s32[] constant(8)
  ROOT less = pred[] compare(i, eight), direction=LT
}
ENTRY main {
  x = f32[65536] parameter(0)
  zero = s32[] constant(0)
  begin = (s32[], f32[65536]) tuple(zero, x)
  loop = (s32[], f32[65536]) while(begin), condition=condition, body=body
  mean = f32[65536] get-tuple-element(loop), index=1
  y = f32[1024] parameter(1)
  small = f32[1024] all-reduce(y), replica_groups={{0,1}}, to_apply=add
  ROOT out = (f32[65536], f32[1024]) tuple(mean, small)
}
)";

// A link half as fast makes the loop longer by what its collectives send; a
// search, which has the loop whole, prices it by its parts.
TEST(ModelRun, SeesTheCollectivesOfALoop) {
  const Result<InlinedModule> module = parse_inlined(kLoop);
  ASSERT_TRUE(module) << module.error().message;
  const Result<Schedule> whole =
      lower_schedule(*module, identity_plan(*module, 2));
  ASSERT_TRUE(whole) << whole.error().message;
  const TimedSchedule timed(*whole, true);
  ASSERT_TRUE(timed.has_parts());
  const CostModel truth = true_costs(timed.schedule(), 0);
  Trace trace =
      run_trace(timed.schedule(), truth, {.steps = 16, .noise = 0.02});
  trace.environment[kTimedParts] = "1";
  const AlignedTrace aligned = AlignedTrace::align(trace);
  const Result<RunModel> model = model_run(aligned, *whole);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_LT(std::abs(error(model->predicted_ns, model->measured_ns)), 0.01);
  EXPECT_LT(
      std::abs(error(replay_step_time(price_schedule(*whole, model->costs)),
                     model->predicted_ns)),
      0.001);
  CostModel slower = truth;
  for (auto& [key, price] : slower.collectives)
    price.bandwidth_bytes_per_s /= 2;
  const int64_t slower_ns =
      replay_step_time(price_schedule(timed.schedule(), slower));
  EXPECT_GT(slower_ns, model->measured_ns * 3 / 2);
  const auto what_ifs =
      parse_what_ifs(std::vector<std::string>{"bandwidth=0.5x"});
  ASSERT_TRUE(what_ifs);
  const auto replay = replay_step(
      price_schedule(timed.schedule(), model->costs), &*module, *what_ifs);
  ASSERT_TRUE(replay) << replay.error().message;
  EXPECT_LT(std::abs(error(replay->step_time_ns, slower_ns)), 0.02);
}

// Launches wait 3 us each that they do not without the recording.
TEST(ModelRun, TakesOffWhatRecordingCost) {
  const Schedule schedule = training_schedule({.layers = 6});
  CostModel bare = true_costs(schedule, 64e3);
  for (auto& [key, price] : bare.collectives)  // Compute decides.
    price.bandwidth_bytes_per_s = price.peak_bandwidth_bytes_per_s = 50e9;
  CostModel slowed = bare;
  slowed.dispatch_ns += 3e3;
  Trace trace = run_trace(schedule, slowed, {.steps = 16});
  const AlignedTrace aligned = AlignedTrace::align(trace);
  const Result<RunModel> as_recorded = model_run(aligned, schedule);
  ASSERT_TRUE(as_recorded.has_value());
  EXPECT_EQ(as_recorded->tracing_ns, 0);
  const int64_t bare_ns = replay_step_time(price_schedule(schedule, bare));
  keep_bare_steps({{0, 16, 0, bare_ns, false}, {1, 16, 0, bare_ns, false}},
                  trace);
  const Result<RunModel> model =
      model_run(AlignedTrace::align(trace), schedule);
  ASSERT_TRUE(model.has_value());
  EXPECT_EQ(model->measured_ns, bare_ns);
  EXPECT_EQ(model->tracing_ns, as_recorded->measured_ns - bare_ns);
  EXPECT_NEAR(error(model->predicted_ns, bare_ns), 0, 1e-3);
  EXPECT_LT(model->costs.dispatch_ns, as_recorded->costs.dispatch_ns);
  for (const auto& [key, price] : model->costs.units)
    EXPECT_EQ(price.alone_ns, as_recorded->costs.units.at(key).alone_ns);
}

// Each unit holds its event; the last rank's units decide the step.
TEST(ModelRun, TakesOffWhatEventsCost) {
  const Schedule schedule = training_schedule({.layers = 6});
  CostModel bare = true_costs(schedule, 64e3);
  for (auto& [key, price] : bare.collectives)  // Compute decides.
    price.bandwidth_bytes_per_s = price.peak_bandwidth_bytes_per_s = 50e9;
  CostModel slowed = bare;
  for (auto& [key, price] : slowed.units) price.alone_ns += 250;
  Trace trace = run_trace(schedule, slowed, {.steps = 16});
  const Result<RunModel> as_recorded =
      model_run(AlignedTrace::align(trace), schedule);
  ASSERT_TRUE(as_recorded.has_value());
  trace.environment[kEventCost] = "250";
  const Result<RunModel> model =
      model_run(AlignedTrace::align(trace), schedule);
  ASSERT_TRUE(model.has_value());
  const int64_t bare_ns = replay_step_time(price_schedule(schedule, bare));
  EXPECT_GT(model->tracing_ns, 6 * 250);
  EXPECT_NEAR(error(model->measured_ns, bare_ns), 0, 1e-3);
  EXPECT_NEAR(error(model->predicted_ns, bare_ns), 0, 1e-3);
  for (const auto& [key, price] : as_recorded->costs.units)
    EXPECT_EQ(model->costs.units.at(key).alone_ns, price.alone_ns - 250);
  for (const char* no_cost : {"", "-3", "1000", "9223372036854775808", "x"}) {
    trace.environment[kEventCost] = no_cost;
    EXPECT_EQ(event_cost_ns(trace), 0) << no_cost;
  }
}

TEST(ModelRun, RefusesASoloRun) {
  const Schedule schedule = training_schedule({.layers = 1});
  Trace trace =
      run_trace(schedule, true_costs(schedule, 0), {.steps = 3, .solo = true});
  trace.environment.insert({"solo", "1"});
  const Result<RunModel> model =
      model_run(AlignedTrace::align(trace), schedule);
  ASSERT_FALSE(model.has_value());
  EXPECT_NE(model.error().message.find("solo"), std::string::npos);
}

TEST(ModelRun, RefusesACalibrationUnderWhichItReplaysWorse) {
  const auto missing = [](int64_t missed_ns) {
    RunModel model;
    model.measured_ns = 1000;
    model.missed_ns = missed_ns;
    return model;
  };
  EXPECT_TRUE(check_calibration(missing(40), missing(-55)));
  EXPECT_TRUE(check_calibration(missing(-40), missing(3)));
  const Status refused = check_calibration(missing(-4), missing(52));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message,
            "the calibration is refused: under it the recorded run took "
            "+5.2 % against its replay, without it -0.4 %; was the machine "
            "busy?");
}

}  // namespace
}  // namespace reprise
