// Which runs calibration asks for, with a replayed program in place of a real
// one.
#include "costmodel/measuring_runs.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "costmodel/calibration.h"
#include "costmodel/large_transfers.h"
#include "costmodel/plan_calibration.h"
#include "tests/replay/simulate/synthetic_run.h"
#include "tests/testing/directories.h"

namespace reprise {
namespace {

class MeasuringRunsTest : public ::testing::Test {
 protected:
  struct Run {
    bool solo = false, is_ordered = false;
    size_t buckets = 0;
    int64_t steps = 0;
    bool operator==(const Run&) const = default;
  };

  MeasuringRunsTest()
      : program_(*load_lowered_program(
            source_directory() + "/data/programs/mlp.2.hlo", "", 2)),
        truth_(true_costs(program_.schedule, 0)),
        recorded_(run_trace(program_.schedule, truth_, {})) {}

  MeasuringRuns runs() {
    return {.run = [this](const LoweredProgram& program, bool solo,
                          const CalibrationSteps& steps) -> Result<Trace> {
              seen_.push_back({solo, !program.plan.order.empty(),
                               program.plan.buckets.size(), steps.steps});
              return run_trace(
                  program.schedule, truth_,
                  {.steps = static_cast<int>(steps.steps), .solo = solo});
            },
            .align_clocks = [this](Trace&) { ++alignments_; }};
  }

  static std::set<std::string> contexts(const std::vector<Measurement>& all) {
    std::set<std::string> found;
    for (const Measurement& each : all) found.insert(each.context);
    return found;
  }

  LoweredProgram program_;
  CostModel truth_;
  Trace recorded_;
  std::vector<Run> seen_;
  int alignments_ = 0;
};

TEST_F(MeasuringRunsTest, UnitsOfAPlanTakeOneRunInItsOwnOrder) {
  const auto found = calibrate(program_, nullptr, {8, 2}, runs());
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(seen_, (std::vector<Run>{{.solo = true, .steps = 8}}));
  EXPECT_EQ(alignments_, 0);
  EXPECT_EQ(contexts(found->measurements),
            (std::set<std::string>{kSoloContext}));
}

// Alone in an order that keeps both streams busy; then a few buckets after the
// compute and beside it. The recorded run and both of these are aligned.
TEST_F(MeasuringRunsTest, ARecordedRunIsMeasuredWithItsLink) {
  const auto found = calibrate(program_, &recorded_, {8, 2}, runs());
  ASSERT_TRUE(found) << found.error().message;
  const size_t buckets = probing_buckets(program_.schedule).size();
  ASSERT_GT(buckets, 0u);
  EXPECT_EQ(seen_, (std::vector<Run>{
                       {.solo = true, .is_ordered = true, .steps = 8},
                       {.is_ordered = true, .buckets = buckets, .steps = 8},
                       {.is_ordered = true, .buckets = buckets, .steps = 8}}));
  EXPECT_EQ(alignments_, 3);
  const std::set<std::string> all = contexts(found->measurements);
  EXPECT_TRUE(all.contains(kSoloContext));
  EXPECT_TRUE(all.contains(kSizeContext));
}

// A run alone lasts 1.5 s at the recorded pace, besides 2 steps of warm-up.
TEST_F(MeasuringRunsTest, ASearchMeasuresTheLinkOnceAndEachPlanAlone) {
  int64_t time_ns = 0, count = 0;
  for (const StepMark& mark : recorded_.steps) {
    if (mark.warmup) continue;
    time_ns += mark.end_ns - mark.start_ns;
    ++count;
  }
  const int64_t steps = 2 + 1'500'000'000 / (time_ns / count);
  ASSERT_GT(steps, 2 + 5);
  ASSERT_LT(steps, 2 + 60);
  PlanCalibration calibration(recorded_, program_, {}, runs());
  ASSERT_TRUE(calibration.measure(program_.plan));
  EXPECT_EQ(seen_.size(), 4u);
  EXPECT_EQ(seen_.front().steps, steps);
  ASSERT_TRUE(calibration.measure(program_.plan));
  ASSERT_EQ(seen_.size(), 5u);
  EXPECT_EQ(seen_.back(), (Run{.solo = true, .steps = steps}));
  EXPECT_EQ(calibration.known().size(), calibration.measured().size());
  EXPECT_EQ(calibration.runs(), 5);
  const size_t found = calibration.measured().size();
  ASSERT_TRUE(calibration.measure(program_.plan));
  EXPECT_GT(calibration.measured().size(), found);
  calibration.forget_last();
  EXPECT_EQ(calibration.known().size(), found);
  EXPECT_EQ(calibration.measured().size(), found);
}

TEST_F(MeasuringRunsTest, KnownSlowDownsAreNotMeasuredAgain) {
  const Measurement known = {.key = "slowdown/kernel",
                             .unit = {},
                             .context = kBesideContext,
                             .median_ns = 1'200'000,
                             .samples = 8};
  PlanCalibration calibration(recorded_, program_, {known}, runs());
  ASSERT_TRUE(calibration.measure(program_.plan));
  EXPECT_EQ(seen_.size(), 1u);
  EXPECT_EQ(calibration.known().size(), calibration.measured().size() + 1);
}

TEST_F(MeasuringRunsTest, RunsOnTheCpuStandForNoOtherDevice) {
  EXPECT_TRUE(check_measurable(recorded_, "t.trace"));
  recorded_.environment["device"] = "cuda";
  const Status refused = check_measurable(recorded_, "t.trace");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message,
            "t.trace: recorded on cuda, and units are measured on the CPU "
            "only");
}

}  // namespace
}  // namespace reprise
