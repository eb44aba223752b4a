// The rules by which frameworks draw bucket borders.
#include "optimizer/baselines/baselines.h"

#include <gtest/gtest.h>

namespace reprise {
namespace {

constexpr int64_t kMib = 1 << 20;

BucketProgram program_of_sizes(std::vector<ReadyGradient> gradients) {
  return {.gradients = std::move(gradients),
          .compute_free_ns = 0,
          .price_ns = [](int64_t bytes, uint32_t) { return bytes / 1000; }};
}

TEST(Baselines, DdpClosesABucketWhenItsSizeReachesTheCap) {
  // First cap 1 MiB: 0.6 + 0.6 reaches it. Then 25 MiB: 20 + 6 reaches it.
  const auto groups = ddp_groups(program_of_sizes({{0, kMib * 6 / 10},
                                                   {1, kMib * 6 / 10},
                                                   {2, 20 * kMib},
                                                   {3, 6 * kMib},
                                                   {4, kMib}}));
  EXPECT_EQ(groups, (std::vector<GradientGroup>{{0, 1}, {2, 3}, {4}}));
}

TEST(Baselines, HorovodFusesWhatIsReadyAtACycle) {
  // Cycles every 1 ms: at 0 the first; at 1 ms the second and third, whose
  // transfer of 3 ms makes the next cycle 4 ms, when the fourth is ready.
  const auto borders =
      horovod_borders(program_of_sizes({{0, 1000},
                                        {200'000, 1'500'000'000},
                                        {900'000, 1'500'000'000},
                                        {1'100'000, 1000}}));
  EXPECT_EQ(borders, (std::vector<size_t>{1, 2, 3, 4}))
      << "128 MiB cap keeps the two large ones apart";
}

TEST(Baselines, HorovodCyclesTickEveryMillisecond) {
  // 3 MB take 3 us here, so cycles stay 1 ms apart: {0}, {0.2, 0.9}, {1.1}.
  const auto borders = horovod_borders(program_of_sizes({{0, 1000},
                                                         {200'000, 1'500'000},
                                                         {900'000, 1'500'000},
                                                         {1'100'000, 1000}}));
  EXPECT_EQ(borders, (std::vector<size_t>{1, 3, 4}));
}

TEST(Baselines, HorovodCyclesLastAsLongAsTheirTransfers) {
  // 3 GB take 3 ms here: sent at the cycle of 1 ms, they hold the next one up
  // until 4 ms, which finds both of the last two ready.
  const auto borders =
      horovod_borders(program_of_sizes({{0, 1000},
                                        {200'000, 3'000'000'000},
                                        {1'500'000, 1000},
                                        {3'500'000, 1000}}));
  EXPECT_EQ(borders, (std::vector<size_t>{1, 2, 4}));
}

TEST(Baselines, DdpGivesEachTypeBucketsOfItsOwn) {
  // 0.6 of one type, then 0.6 + 0.3 of another, which never reach 1 MiB. The
  // first type's 0.5 makes 1.1: {0, 3}; its next cap, 25 MiB, leaves 0.5 + 1.
  const auto groups = ddp_groups(program_of_sizes({{0, kMib * 6 / 10, 0, 0},
                                                   {1, kMib * 6 / 10, 0, 1},
                                                   {2, kMib * 3 / 10, 0, 1},
                                                   {3, kMib / 2, 0, 0},
                                                   {4, kMib / 2, 0, 0},
                                                   {5, kMib, 0, 0}}));
  EXPECT_EQ(groups, (std::vector<GradientGroup>{{0, 3}, {1, 2}, {4, 5}}));
}

TEST(Baselines, XlaCombinesUpToItsThreshold) {
  // 20 + 10 MiB are at most 30 MiB + 7 B, 1 more is not.
  EXPECT_EQ(xla_borders(program_of_sizes(
                {{0, 20 * kMib}, {1, 10 * kMib}, {2, kMib}, {3, 40 * kMib}})),
            (std::vector<size_t>{2, 3, 4}));
  // Another type begins anew: 25 + 4 fit, whatever the 2 before.
  EXPECT_EQ(
      xla_borders(program_of_sizes(
          {{0, 2 * kMib, 0, 0}, {1, 25 * kMib, 0, 1}, {2, 4 * kMib, 0, 1}})),
      (std::vector<size_t>{1, 3}));
}

TEST(Baselines, XlaCombinesNoMoreThan256Operands) {
  const auto borders =
      xla_borders(program_of_sizes(std::vector<ReadyGradient>(300, {0, 64})));
  EXPECT_EQ(borders, (std::vector<size_t>{256, 300}));
}

}  // namespace
}  // namespace reprise
