// Links, choices of protocol, stages and experts that are not alike.
#include <gtest/gtest.h>

#include <vector>

#include "tests/replay/findings/found_cause.h"
#include "tests/testing/time_units.h"

namespace reprise {
namespace {

TEST(Findings, CollectiveChoice) {
  // Every other all-reduce of one size is five times as slow by its protocol:
  // communication, hidden before, outlasts compute.
  expect_found("collective-choice", 2, [](InjectedStep& step, bool cause) {
    for (int layer = 0; layer < 20; ++layer) {
      const bool slow = cause && layer % 2 == 0;
      step.kernel("gemm", 400 * kUs);
      step.collective(CollectiveKind::kAllReduce, 40'000'000,
                      (slow ? 1000 : 200) * kUs, true,
                      slow
                          ? "ncclDevKernel_AllReduce_Sum_f32_RING_LL(int)"
                          : "ncclDevKernel_AllReduce_Sum_f32_RING_SIMPLE(int)");
    }
  });
}

/// Eight ranks in four groups of two, whose all-reduces nothing hides: one
/// group's take four times as long, so that all wait for it at the end of each
/// layer's work.
void groups_of_two(InjectedStep& step,
                   const std::vector<int64_t>& transfer_ns) {
  for (int layer = 0; layer < 12; ++layer) {
    compute(step, 2, 300 * kUs);
    step.grouped(2, 40'000'000, transfer_ns);
    if (layer % 4 == 3) {
      step.collective(CollectiveKind::kAllReduce, 400'000, 20 * kUs, false);
    }
  }
}

TEST(Findings, SlowLinkOfOneGroup) {
  expect_found("slow-link", 8, [](InjectedStep& step, bool cause) {
    groups_of_two(step,
                  {200 * kUs, 200 * kUs, (cause ? 800 : 200) * kUs, 200 * kUs});
  });
  const Found found = find(
      8,
      [](InjectedStep& step, bool) {
        groups_of_two(step, {200 * kUs, 210 * kUs, 800 * kUs, 190 * kUs});
      },
      true);
  const Finding* link = found.of("slow-link");
  ASSERT_NE(link, nullptr);
  EXPECT_EQ(link->what,
            "slow link between ranks 4 and 5: transfers take up to 4x as long "
            "as between their peers");
  EXPECT_EQ(link->where.ranks, (std::vector<uint32_t>{4, 5}));
  // 40 MB in 800 us and in 200 us; of two ranks, the bus carries all of it.
  EXPECT_EQ(link->evidence[0],
            "all-reduce of 40 MB: 50 GB/s in 12 transfers, 200 GB/s "
            "among 3 others");
}

TEST(Findings, SlowLinkOfOnePairOfStages) {
  // Four stages; what goes from rank 1 to rank 2 takes five times as long.
  expect_found("slow-link", 4, [](InjectedStep& step, bool cause) {
    for (int batch = 0; batch < 12; ++batch) {
      for (uint32_t stage = 0; stage < 4; ++stage) {
        step.kernel_on(stage, "gemm", 400 * kUs);
        if (stage < 3) {
          step.send(stage, 50'000'000,
                    (cause && stage == 1 ? 1000 : 200) * kUs);
        }
      }
    }
  });
}

TEST(Findings, SlowLinkOfOnePairOfAPermutation) {
  // Of eight ranks in a ring, what goes from 2 to 3 takes four times as long.
  expect_found("slow-link", 8, [](InjectedStep& step, bool cause) {
    std::vector<int64_t> transfer_ns(8, 200 * kUs);
    if (cause) transfer_ns[2] = transfer_ns[3] = 800 * kUs;
    for (int layer = 0; layer < 12; ++layer) {
      compute(step, 2, 300 * kUs);
      step.permute(40'000'000, transfer_ns);
    }
    step.collective(CollectiveKind::kAllReduce, 400'000, 20 * kUs, false);
  });
}

TEST(Findings, GroupsThatDifferNowAndThenHaveNoSlowLink) {
  // Every third transfer of one group is slow.
  const Found found = find(
      4,
      [](InjectedStep& step, bool) {
        for (int layer = 0; layer < 12; ++layer) {
          compute(step, 2, 300 * kUs);
          const bool slow = layer % 3 == 0;
          step.grouped(2, 40'000'000, {200 * kUs, (slow ? 900 : 210) * kUs});
        }
      },
      true);
  EXPECT_EQ(found.of("slow-link"), nullptr);
}

TEST(Findings, UnequalStages) {
  // Two stages, one micro batch after the other; balanced, each has the mean.
  expect_found(
      "unequal-stages", 2,
      [](InjectedStep& step, bool cause) {
        for (int batch = 0; batch < 16; ++batch) {
          step.kernel_on(0, "gemm", (cause ? 300 : 500) * kUs);
          step.send(0, 1'000'000, 10 * kUs);
          step.kernel_on(1, "gemm", (cause ? 700 : 500) * kUs);
        }
      },
      0.05);
}

TEST(Findings, UnequalExperts) {
  // The hot expert wanders, so that no rank has more in all.
  expect_found("unequal-experts", 4, [](InjectedStep& step, bool cause) {
    for (uint32_t layer = 0; layer < 8; ++layer) {
      compute(step, 2, 100 * kUs);
      step.collective(CollectiveKind::kAllToAll, 1'000'000, 20 * kUs, false);
      for (uint32_t rank = 0; rank < 4; ++rank) {
        const bool hot = rank == layer % 4;
        step.kernel_on(rank, "expert_gemm",
                       (cause ? hot ? 1000 : 200 : 400) * kUs);
      }
      step.collective(CollectiveKind::kAllToAll, 1'000'000, 20 * kUs, false);
    }
    compute(step, 2, 100 * kUs);
  });
}

}  // namespace
}  // namespace reprise
