#include "optimizer/buckets/pytorch_buckets.h"

#include <gtest/gtest.h>

namespace reprise {
namespace {

using Groups = std::vector<GradientGroup>;

TEST(PytorchBuckets, ABucketClosesWhenItReachesItsCap) {
  const std::vector<SizedGradient> gradients = {{30}, {80},  {60},
                                                {10}, {100}, {1}};
  // 30 + 80 >= 100; 60 + 10 >= 70; then 100 >= 70, and 1 is left over.
  EXPECT_EQ(pytorch_buckets(gradients, std::vector<int64_t>{100, 70}),
            (Groups{{0, 1}, {2, 3}, {4}, {5}}));
}

// Two types that take turns, as in mixed precision: each goes on filling its
// own bucket, and each begins with the first cap.
TEST(PytorchBuckets, TypesThatTakeTurnsFillBucketsOfTheirOwn) {
  const std::vector<SizedGradient> gradients = {
      {6, 0}, {4, 1}, {5, 0}, {5, 1}, {9, 0}, {30, 1}, {12, 0}, {2, 1}};
  // Caps 10, then 20. Key 0: 6 + 5 >= 10 closes at 2; 9 + 12 >= 20 at 6.
  // Key 1: 4 + 5 = 9 < 10, with 30 it closes at 5; 2 is left over.
  EXPECT_EQ(pytorch_buckets(gradients, std::vector<int64_t>{10, 20}),
            (Groups{{0, 2}, {1, 3, 5}, {4, 6}, {7}}));
}

TEST(PytorchBuckets, WhatStaysOpenComesByItsFirstGradient) {
  const std::vector<SizedGradient> gradients = {{1, 2}, {1, 0}, {1, 1}, {1, 0}};
  EXPECT_EQ(pytorch_buckets(gradients, std::vector<int64_t>{10}),
            (Groups{{0}, {1, 3}, {2}}));
  EXPECT_EQ(pytorch_buckets({}, std::vector<int64_t>{10}), Groups{});
}

}  // namespace
}  // namespace reprise
