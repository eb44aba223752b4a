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
