#include "costmodel/fit_units.h"

#include <gtest/gtest.h>

namespace reprise {
namespace {

/// Twelve kernels of one op each that take 500 ns and 0.1 ns a byte.
struct RecordedKernels {
  RecordedKernels() {
    RecordedRank& rank = step.ranks.emplace_back();
    for (uint32_t k = 0; k < 12; ++k) {
      Unit& unit = schedule.units.emplace_back();
      unit.key = "kernel:" + std::to_string(k);
      unit.ops = {InstructionId{100 + k}};
      unit.bytes = 20000.0 * (k + 1);
      unit.flops = unit.bytes / 8;
      rank.compute.push_back({.unit = k, .start_ns = 0, .end_ns = time_ns(k)});
    }
  }
  static int64_t time_ns(uint32_t k) { return 500 + 2000 * (k + 1); }

  CostModel fitted() const {
    CostModel costs;
    fit_units({step, step}, schedule, {}, costs);
    return costs;
  }
  Unit group_of(std::initializer_list<uint32_t> kernels) const {
    Unit group;
    for (const uint32_t k : kernels) {
      group.ops.push_back(schedule.units[k].ops[0]);
      group.bytes += schedule.units[k].bytes;
      group.flops += schedule.units[k].flops;
    }
    return group;
  }

  Schedule schedule;
  RecordedStep step;
};

TEST(FitUnits, AnOpThatIsSlowAloneIsAsSlowInEveryGroup) {
  RecordedKernels recorded;
  EXPECT_TRUE(recorded.fitted().slow_ops_ns.empty());
  // A call of a library for each element: ten times as long.
  constexpr uint32_t kSlow = 7;
  int64_t& end_ns = recorded.step.ranks[0].compute[kSlow].end_ns;
  const auto beyond_ns = static_cast<double>(9 * end_ns);
  end_ns *= 10;
  const CostModel costs = recorded.fitted();
  ASSERT_EQ(costs.slow_ops_ns.size(), 1U);
  EXPECT_NEAR(costs.slow_ops_ns.at(100 + kSlow), beyond_ns, 0.05 * beyond_ns);
  const double plain = costs.price(recorded.group_of({3, 6})).alone_ns;
  EXPECT_NEAR(plain, 500 + 2000 * (4 + 7), 0.1 * plain);
  const double slow = costs.price(recorded.group_of({2, kSlow})).alone_ns;
  EXPECT_NEAR(slow - plain, beyond_ns, 0.05 * beyond_ns);
  // Alone it is what was measured.
  EXPECT_EQ(costs.price(recorded.schedule.units[kSlow]).alone_ns,
            static_cast<double>(end_ns));
}

TEST(FitUnits, WhatAUnitCostsThatDoesNothingIsNoOps) {
  RecordedKernels recorded;
  // Three times as long as priced, but by less than a few overheads.
  recorded.schedule.units[0].bytes = 100;
  recorded.schedule.units[0].flops = 10;
  recorded.step.ranks[0].compute[0].end_ns = 1500;
  EXPECT_TRUE(recorded.fitted().slow_ops_ns.empty());
}

// Ops that all wait for memory say nothing of how fast a processor computes
// beyond what they reached, 1.25 operations a nanosecond here: a plan whose
// kernels did seven times as many was priced at half of what it took.
TEST(FitUnits, NoRateIsFasterThanUnitsShow) {
  const CostModel costs = RecordedKernels().fitted();
  EXPECT_GT(costs.flops_per_s, 1e9);
  EXPECT_LT(costs.flops_per_s, 2e9);
  // Nor memory beyond its 10 bytes; either explains the units.
  EXPECT_GT(costs.bytes_per_s, 0.8e10);
  EXPECT_LT(costs.bytes_per_s, 1.6e10);
}

}  // namespace
}  // namespace reprise
