#include "runtime/cpu/shared_work.h"

#include <gtest/gtest.h>

namespace reprise {
namespace {

/// The trial of a unit that takes these times, and how each run was done.
UnitTrial trial(int64_t whole_ns, int64_t in_parts_ns) {
  UnitTrial trial;
  for (uint32_t run = 0; !trial.is_over(); ++run) {
    EXPECT_EQ(trial.in_parts(), run % 2 == 0);
    // The first of each kind finds nothing in any cache.
    const int64_t cold_ns = run < 2 ? 1'000'000 : 0;
    trial.add(cold_ns + (trial.in_parts() ? in_parts_ns : whole_ns));
  }
  return trial;
}

TEST(UnitTrial, KeepsSharedWhatGainsAFifth) {
  EXPECT_TRUE(trial(10'000, 5'500).in_parts());
  EXPECT_TRUE(trial(10'000, 7'900).in_parts());
  EXPECT_FALSE(trial(10'000, 8'100).in_parts());
  EXPECT_FALSE(trial(10'000, 14'000).in_parts());
}

TEST(UnitTrial, IsRepeatedSinceACoreMayHaveBeenTakenTheFirstTime) {
  UnitTrial found = trial(10'000, 14'000);
  for (uint32_t run = UnitTrial::kRuns; found.is_over(); ++run) {
    EXPECT_FALSE(found.in_parts());
    EXPECT_LT(run, UnitTrial::kFirstAgain);
    found.count_run();
  }
  while (!found.is_over()) found.add(found.in_parts() ? 5'500 : 10'000);
  uint32_t runs = UnitTrial::kRuns;
  for (; found.is_over(); ++runs) {
    EXPECT_TRUE(found.in_parts());
    found.count_run();
  }
  EXPECT_EQ(runs, UnitTrial::kFirstAgain * UnitTrial::kLaterBy);
}

/// The trial of a step that takes these times without sharing and with; the
/// first steps of a row take longer, while a team falls asleep or wakes up.
StepTrial step_trial(int64_t whole_ns, int64_t shared_ns) {
  StepTrial trial;
  bool before = true;
  int64_t since = 0;
  for (int step = 0; !trial.is_over() && step < 1000; ++step) {
    since = trial.shares() == before ? since + 1 : 0;
    before = trial.shares();
    const int64_t late_ns = since < StepTrial::kUnjudged ? 500'000 : 0;
    trial.add(late_ns + (trial.shares() ? shared_ns : whole_ns));
  }
  return trial;
}

TEST(StepTrial, KeepsSharedAStepThatGains) {
  EXPECT_TRUE(step_trial(100'000, 85'000).shares());
  EXPECT_FALSE(step_trial(100'000, 92'000).shares());
  EXPECT_FALSE(step_trial(100'000, 120'000).shares());
}

TEST(StepTrial, LeavesUnitsTheirTrialsFirst) {
  StepTrial trial;
  for (uint32_t step = 0; step < StepTrial::kFirst; ++step) {
    EXPECT_TRUE(trial.shares());
    trial.add(100'000);
  }
  EXPECT_FALSE(trial.is_over());
}

TEST(StepTrial, LongStepsShareWhatTheirUnitsSay) {
  StepTrial trial;
  for (uint32_t step = 0; step < StepTrial::kFirst + StepTrial::kRow; ++step) {
    EXPECT_TRUE(trial.shares());
    trial.add(20'000'000);
  }
  EXPECT_TRUE(trial.is_over());
  EXPECT_TRUE(trial.shares());
}

}  // namespace
}  // namespace reprise
