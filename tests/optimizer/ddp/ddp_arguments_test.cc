#include "optimizer/ddp/ddp_arguments.h"

#include <gtest/gtest.h>

namespace reprise {
namespace {

Plan plan_of(std::vector<PlannedGradient> gradients, int64_t cap,
             std::vector<std::vector<std::string>> buckets) {
  Plan plan;
  plan.trace = TracePlan{.fingerprint = {},
                         .gradients = std::move(gradients),
                         .single_cap_bytes = cap};
  for (auto& names : buckets) {
    plan.buckets.push_back({.unit = "b0", .collectives = std::move(names)});
  }
  return plan;
}

// Under a cap of 60 bytes: "half" g0 and g2 reach it together (70), "float" g1
// does alone (60). Left over are g3 (half, 5) and g4 (float, 7), in ready order
// as in the search that chose the cap.
TEST(DdpArguments, SizesAreThoseOfTheSearchsOwnRule) {
  const Plan plan = plan_of({{"g0", "half", "", 30},
                             {"g1", "float", "", 60},
                             {"g2", "half", "", 40},
                             {"g3", "half", "", 5},
                             {"g4", "float", "", 7}},
                            60, {{"g0"}, {"g1", "g4"}, {"g2", "g3"}});
  const auto found = ddp_arguments(plan, "p.json");
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->bucket_bytes, (std::vector<int64_t>{30, 67, 45}));
  EXPECT_EQ(found->single_cap_bucket_bytes,
            (std::vector<int64_t>{60, 70, 5, 7}));
}

TEST(DdpArguments, BucketsThatPyTorchCannotMakeAreRefused) {
  const std::vector<PlannedGradient> gradients = {
      {"g0", "float", "", 1}, {"g1", "float", "", 2}, {"g2", "half", "", 4}};
  const auto message = [&](std::vector<std::vector<std::string>> buckets) {
    const auto found =
        ddp_arguments(plan_of(gradients, 8, std::move(buckets)), "p.json");
    return found ? std::string() : found.error().message;
  };
  const std::string kOutOfOrder =
      "p.json: bucket b0 is not made of the next gradients of one type at ";
  EXPECT_TRUE(message({{"g1"}, {"g0"}, {"g2"}})
                  .starts_with(kOutOfOrder + "'g1'; PyTorch"));
  EXPECT_TRUE(message({{"g0", "g2"}, {"g1"}})
                  .starts_with(kOutOfOrder + "'g2'; PyTorch"));
  EXPECT_EQ(message({{"g0", "x"}}), "p.json: bucket b0 names no gradient: 'x'");
  EXPECT_EQ(message({{"g0", "g1"}}),
            "p.json: 2 of 3 gradients are in a bucket");
}

}  // namespace
}  // namespace reprise
