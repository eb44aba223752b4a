#include "profiler/inject/window.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace reprise::inject {
namespace {

TEST(StepNumber, IsThatOfRangesThatMarkSteps) {
  EXPECT_EQ(step_number("ProfilerStep#12", ""), 12);
  EXPECT_EQ(step_number("step 3", ""), 3);
  EXPECT_EQ(step_number("Train Step: 0", ""), 0);
  EXPECT_EQ(step_number("iteration_7", ""), 7);
  EXPECT_EQ(step_number("step", ""), std::nullopt);
  EXPECT_EQ(step_number("42", ""), std::nullopt);
  EXPECT_EQ(step_number("conv2d 3", ""), std::nullopt);
  EXPECT_EQ(step_number("optimizer.step.Adam3", ""), std::nullopt);
  EXPECT_EQ(step_number("step 99999999999999999999", ""), std::nullopt);
}

TEST(StepNumber, IsThatOfTheChosenRange) {
  EXPECT_EQ(step_number("epoch 3", "epoch"), 3);
  EXPECT_EQ(step_number("epoch", "epoch"), 0);
  EXPECT_EQ(step_number("step 3", "epoch"), std::nullopt);
}

class WindowTest : public testing::Test {
 protected:
  void read(const char* steps, const char* window = "") {
    ::setenv("REPRISE_PROFILE_STEPS", steps, 1);
    ::setenv("REPRISE_PROFILE_WINDOW", window, 1);
    ::unsetenv("REPRISE_PROFILE_RANGE");
    window_.read_environment();
  }
  Window window_;
};

TEST_F(WindowTest, IsOpenWithoutLimits) {
  read("");
  EXPECT_TRUE(window_.is_open());
  EXPECT_FALSE(window_.mark_step(3));
  EXPECT_TRUE(window_.is_open());
}

TEST_F(WindowTest, WhatCannotBeReadLimitsNothing) {
  for (const char* steps : {"3", "a:b", "3:3", "4:2", "-1:2", ":x"}) {
    Window window;
    ::setenv("REPRISE_PROFILE_STEPS", steps, 1);
    window.read_environment();
    EXPECT_EQ(window.mode(), Window::Mode::kAll) << steps;
  }
}

TEST_F(WindowTest, OpensBeforeItsFirstStepAndClosesAfterItsLast) {
  read("1:3");
  EXPECT_FALSE(window_.is_open());
  EXPECT_TRUE(window_.mark_step(0));  // Next is step 1.
  EXPECT_TRUE(window_.is_open());
  EXPECT_FALSE(window_.mark_step(1));
  EXPECT_TRUE(window_.mark_step(2));
  EXPECT_FALSE(window_.is_open());
}

TEST_F(WindowTest, SaysWhetherItOpened) {
  read("1:3");
  EXPECT_EQ(window_.describe(),
            "steps 1:3: never came, no step mark or range was in them");
  window_.mark_step(0);
  EXPECT_EQ(window_.describe(), "steps 1:3");
  Window other;
  ::setenv("REPRISE_PROFILE_STEPS", "", 1);
  other.read_environment();
  EXPECT_EQ(other.describe(), "");
}

TEST_F(WindowTest, HasOpenSides) {
  read(":2");
  EXPECT_TRUE(window_.is_open());
  EXPECT_TRUE(window_.mark_step(1));
  EXPECT_FALSE(window_.is_open());
  Window other;
  ::setenv("REPRISE_PROFILE_STEPS", "2:", 1);
  other.read_environment();
  EXPECT_FALSE(other.is_open());
  EXPECT_TRUE(other.mark_step(1));
  EXPECT_FALSE(other.mark_step(1'000'000));
}

TEST_F(WindowTest, MarksOfTheProgramOutrankRanges) {
  read("1:3");
  EXPECT_TRUE(window_.takes_ranges());
  EXPECT_TRUE(window_.begin_step(1));
  EXPECT_TRUE(window_.mark_step(7));
  EXPECT_FALSE(window_.takes_ranges());
  EXPECT_FALSE(window_.begin_step(1));
  EXPECT_FALSE(window_.is_open());
}

TEST_F(WindowTest, LeavesOutWhatTheProgramWantsUnlessTheUserChose) {
  read("");
  window_.leave_out(2, 4);
  EXPECT_FALSE(window_.mark_step(0));
  EXPECT_TRUE(window_.mark_step(1));  // Next is step 2.
  EXPECT_FALSE(window_.is_open());
  EXPECT_FALSE(window_.mark_step(2));
  EXPECT_TRUE(window_.mark_step(3));
  EXPECT_TRUE(window_.is_open());
  EXPECT_EQ(window_.describe(), "");
  Window chosen;
  ::setenv("REPRISE_PROFILE_STEPS", "1:3", 1);
  chosen.read_environment();
  chosen.leave_out(0, 9);
  EXPECT_TRUE(chosen.mark_step(0));
  EXPECT_TRUE(chosen.is_open());
}

TEST_F(WindowTest, IsClosedWhileHeld) {
  read("");
  window_.hold();
  EXPECT_FALSE(window_.is_open());
  window_.let_go();
  EXPECT_TRUE(window_.is_open());
  Window chosen;
  ::setenv("REPRISE_PROFILE_STEPS", "1:3", 1);
  chosen.read_environment();
  chosen.hold();
  chosen.let_go();
  EXPECT_FALSE(chosen.is_open());
}

TEST_F(WindowTest, FollowsTheProfilerRange) {
  read("1:3", "api");
  EXPECT_FALSE(window_.is_open());
  EXPECT_FALSE(window_.mark_step(0));
  EXPECT_TRUE(window_.profiler_range(true));
  EXPECT_TRUE(window_.is_open());
  EXPECT_TRUE(window_.profiler_range(false));
  EXPECT_FALSE(window_.is_open());
}

}  // namespace
}  // namespace reprise::inject
