#include "runtime/train/train_result.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "runtime/process/clock_offset.h"

namespace reprise {
namespace {

TEST(TrainResult, SumsUpTimedStepsOnly) {
  TrainResult result;
  result.ranks = 2;
  result.steps = 12;
  result.warmup = 2;
  result.step_ns = {10, 30, 20, 50, 40, 60, 70, 80, 100, 90};
  result.loss = {2, 1};
  result.state_hash = "sha256:0";
  const auto json = nlohmann::json::parse(
      print_train_result(result, {.program = "p.hlo",
                                  .fingerprint = "sha256:1",
                                  .device = "cpu",
                                  .plan = "identity"}));
  EXPECT_EQ(json["schema"], "reprise.train/1");
  // Sorted 10, 20 … 100: the middle two are 50 and 60, the ninth of ten is 90.
  EXPECT_EQ(json["step_time_ns"]["median"], 55);
  EXPECT_EQ(json["step_time_ns"]["min"], 10);
  EXPECT_EQ(json["step_time_ns"]["p90"], 90);
  EXPECT_EQ(json["step_time_ns"]["all"].size(), 10u);
  EXPECT_FALSE(json.contains("accuracy"));
  EXPECT_FALSE(json.contains("verification"));
}

TEST(TrainResult, StatesTheDeviceWhereThereIsOne) {
  TrainResult result;
  result.step_ns = {30};
  result.loss = {1};
  result.device_step_ns = {20};
  result.device_facts = {{"device_name", "GPU"}, {"math", "tf32"}};
  const auto json = nlohmann::json::parse(
      print_train_result(result, {.program = "p.hlo",
                                  .fingerprint = "sha256:1",
                                  .device = "cuda",
                                  .plan = "identity"}));
  EXPECT_EQ(json["device"], "cuda");
  EXPECT_EQ(json["device_name"], "GPU");
  EXPECT_EQ(json["math"], "tf32");
  EXPECT_EQ(json["device_step_time_ns"]["median"], 20);
}

TEST(Verification, CountsNotANumberAsTheWorst) {
  Verification verification;
  verification.tensors = {
      {.name = "a", .parameter = 0, .relative_error = 9, .passed = false},
      {.name = "b", .parameter = 1, .relative_error = NAN, .passed = false},
      {.name = "c", .parameter = 2, .relative_error = 1e-9, .passed = true}};
  EXPECT_FALSE(verification.passed());
  EXPECT_EQ(verification.worst()->name, "b");
}

TEST(ClockOffset, DriftIsTheChangeOfTheOffsetOverTheRun) {
  RankInfo rank;
  // 5000 ns more after 1 s: 5 ppm.
  set_clock({.at_ns = 1'000'000'000, .offset_ns = 70'000, .residual_ns = 300},
            {.at_ns = 2'000'000'000, .offset_ns = 75'000, .residual_ns = 200},
            rank);
  EXPECT_EQ(rank.clock_offset_ns, 70'000);
  EXPECT_DOUBLE_EQ(rank.clock_drift_ppm, 5);
  EXPECT_EQ(rank.clock_residual_ns, 300);
}

TEST(StateHash, DependsOnTheOrderOfTensors) {
  EXPECT_NE(state_hash({"aa", "bb"}), state_hash({"bb", "aa"}));
  EXPECT_TRUE(state_hash({"aa"}).starts_with("sha256:"));
}

}  // namespace
}  // namespace reprise
