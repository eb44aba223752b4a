#include "data/trace/step_times.h"

#include <gtest/gtest.h>

#include <limits>

namespace reprise {
namespace {

RankInfo rank(uint32_t number, const char* clock_domain = "monotonic") {
  RankInfo info;
  info.rank = number;
  info.clock_domain = clock_domain;
  return info;
}

TEST(StepTimes, TakeTheSlowestRankOfCompleteSteps) {
  Trace trace;
  trace.ranks = {rank(0), rank(1)};
  // Step 0 warms up; step 2 was not finished by rank 1.
  trace.steps = {{0, 0, 0, 99, true},
                 {1, 0, 0, 99, true},
                 {0, 1, 0, 10, false},
                 {1, 1, 0, 14, false},
                 {0, 2, 0, 50, false}};
  EXPECT_EQ(measured_step_time(trace).value_or(0), 14);
  trace.steps.clear();
  EXPECT_FALSE(measured_step_time(trace).has_value());
  EXPECT_FALSE(typical_step(trace).has_value());
}

TEST(StepTimes, OfRanksLateByTurnsAreTheJobsPace) {
  // Each rank works 37, and by turns 30 more once all have met; rank 0 is late
  // in even steps. Marks touch, and the next step's meeting waits for the late
  // rank: ends at 67, 134 and 201 of the late rank, at 37, 104 and 171 of the
  // other one. The longest marks would be 67, 97 and 97.
  Trace trace;
  trace.ranks = {rank(0), rank(1)};
  trace.steps = {{0, 1, 0, 67, false},    {0, 2, 67, 104, false},
                 {0, 3, 104, 201, false}, {1, 1, 0, 37, false},
                 {1, 2, 37, 134, false},  {1, 3, 134, 171, false}};
  const std::vector<TimedStep> steps = complete_steps(trace);
  ASSERT_EQ(steps.size(), 3U);
  for (const TimedStep& step : steps) EXPECT_EQ(step.step_ns, 67);
  EXPECT_EQ(end_before_ns(trace, 2), 67);
  EXPECT_EQ(end_before_ns(trace, 1), std::nullopt);
}

TEST(StepTimes, LeaveOutWhatRanksDoBetweenTheirMarks) {
  // 10 before each step, and 500 before the last one, on both ranks.
  Trace trace;
  trace.ranks = {rank(0), rank(1)};
  trace.steps = {{0, 1, 0, 60, false},    {0, 2, 70, 130, false},
                 {0, 3, 630, 690, false}, {1, 1, 1, 59, false},
                 {1, 2, 69, 129, false},  {1, 3, 630, 688, false}};
  for (const TimedStep& step : complete_steps(trace))
    EXPECT_EQ(step.step_ns, 60);
}

TEST(StepTimes, CountOnOneClock) {
  // As late by turns, rank 1's clock 1000 ahead: known, then unknown, where
  // the marks share no instant.
  Trace trace;
  trace.ranks = {rank(0), rank(1)};
  trace.steps = {{0, 1, 0, 67, false},
                 {0, 2, 67, 104, false},
                 {1, 1, 1000, 1037, false},
                 {1, 2, 1037, 1134, false}};
  trace.ranks[1].clock_offset_ns = -1000;
  EXPECT_EQ(complete_steps(trace).back().step_ns, 67);
  trace.ranks[1].clock_offset_ns = 0;
  EXPECT_EQ(complete_steps(trace).back().step_ns, 97);
  EXPECT_EQ(end_before_ns(trace, 2), std::nullopt);
}

TEST(StepTimes, OfRanksThatAreStepsApartAreTheLastOnes) {
  // Micro-batches without a meeting but in the last: rank 0 takes 20 for each,
  // rank 1 35, and rank 0 waits for it from 80 on.
  Trace trace;
  trace.ranks = {rank(0), rank(1)};
  trace.steps = {{0, 1, 0, 20, false},   {0, 2, 20, 40, false},
                 {0, 3, 40, 60, false},  {0, 4, 60, 151, false},
                 {1, 1, 0, 35, false},   {1, 2, 35, 70, false},
                 {1, 3, 70, 105, false}, {1, 4, 105, 151, false}};
  const std::vector<TimedStep> steps = complete_steps(trace);
  ASSERT_EQ(steps.size(), 4U);
  EXPECT_EQ(steps[2].step_ns, 35);
  EXPECT_EQ(steps[3].step_ns, 46);
  EXPECT_EQ(end_before_ns(trace, 4), 105);
}

TEST(StepTimes, FollowStepsThatDoNotCountThemselves) {
  // Step 1 warms up and rank 1 did not mark step 2, which ends at 104 on rank
  // 0: step 3 lasts from there to 171, its longest mark from 37 on.
  Trace trace;
  trace.ranks = {rank(0), rank(1)};
  trace.steps = {{0, 1, 0, 67, true},
                 {0, 2, 67, 104, false},
                 {0, 3, 104, 141, false},
                 {1, 1, 0, 37, true},
                 {1, 3, 37, 171, false}};
  const std::vector<TimedStep> steps = complete_steps(trace);
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_EQ(steps[0].step_ns, 67);
}

TEST(StepTimes, OfTwoMiddleStepsTheLongerIsTypical) {
  Trace trace;
  trace.ranks = {rank(0)};
  trace.steps = {{0, 1, 0, 40, false},
                 {0, 2, 0, 10, false},
                 {0, 3, 0, 20, false},
                 {0, 4, 0, 30, false}};
  const auto typical = typical_step(trace);
  ASSERT_TRUE(typical);
  EXPECT_EQ(typical->step, 4);
  EXPECT_EQ(typical->step_ns, 30);
  EXPECT_EQ(typical->steps, 4U);
  EXPECT_EQ(typical->least_ns, 10);
  EXPECT_EQ(typical->median_ns, 25);  // Between 20 and 30.
  EXPECT_EQ(typical->most_ns, 40);
  EXPECT_EQ(typical->spread_ns, 20);  // From 10 to 30.
}

TEST(StepTimes, RanksWithoutTimesAreNotWaitedFor) {
  Trace trace;
  trace.ranks = {rank(0), rank(1, "none")};
  trace.steps = {{0, 1, 5, 12, false}};
  EXPECT_FALSE(is_timed(trace.ranks[1]));
  EXPECT_EQ(measured_step_time(trace).value_or(0), 7);
}

TEST(StepTimes, WildMarksDoNotOverflow) {
  Trace trace;
  trace.ranks = {rank(0)};
  trace.steps = {{0, 1, std::numeric_limits<int64_t>::min(),
                  std::numeric_limits<int64_t>::max(), false}};
  EXPECT_EQ(measured_step_time(trace).value_or(0),
            std::numeric_limits<int64_t>::max());
}

}  // namespace
}  // namespace reprise
