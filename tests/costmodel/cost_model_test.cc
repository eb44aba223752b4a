#include "costmodel/cost_model.h"

#include <gtest/gtest.h>

#include <cmath>

#include "costmodel/fit_collectives.h"
#include "costmodel/fit_contention.h"

namespace reprise {
namespace {

TEST(CollectivePrice, InterpolatesBetweenPointsAndExtrapolatesByBandwidth) {
  // 1 GB/s is 1 ns a byte.
  const CollectivePrice price{.latency_ns = 100,
                              .bandwidth_bytes_per_s = 1e9,
                              .points = {{1000, 1200}, {4000, 4800}}};
  EXPECT_EQ(price.price_ns(1000), 1200);
  // The formula's 2100, times the geometric mean of 1200 / 1100 and 4800 /
  // 4100.
  EXPECT_NEAR(price.price_ns(2000), 2100 * std::sqrt(1200 * 4800 / 4.51e6),
              1e-6);
  EXPECT_EQ(price.price_ns(10000), 4800 + 6000);
  EXPECT_EQ(price.price_ns(500), 700);  // 1200 - 500, above the formula's 600.
}

// Two sizes tell latency and rate: 60 us and 8 bytes a ns. A size between them
// costs what that says, not the 224 us of a line from one time to the other.
TEST(CollectivePrice, PaysTheLatencyOnceBetweenDistantPoints) {
  const CollectivePrice price{.latency_ns = 60e3,
                              .bandwidth_bytes_per_s = 8e9,
                              .points = {{65536, 68192}, {8388608, 1108576}}};
  EXPECT_NEAR(price.price_ns(524288), 60e3 + 524288 / 8.0, 1);
}

TEST(CollectivePrice, GrowsWithBytesWherePointsCrossTheFormula) {
  const CollectivePrice price{.latency_ns = 10e3,
                              .bandwidth_bytes_per_s = 1e9,
                              .points = {{1e3, 100e3}, {1e6, 200e3}}};
  double last_ns = 0;
  for (double bytes = 1e3; bytes < 1e6; bytes *= 1.1) {
    EXPECT_GE(price.price_ns(bytes), std::max(100e3, last_ns)) << bytes;
    last_ns = price.price_ns(bytes);
  }
}

TEST(CollectivePrice, GrowsWithBytes) {
  const CollectivePrice price{.latency_ns = 100,
                              .bandwidth_bytes_per_s = 1e9,
                              .points = {{1000, 900}, {4000, 4800}}};
  double last_ns = 0;
  for (double bytes = 1; bytes < 1e6; bytes *= 1.1) {
    EXPECT_GE(price.price_ns(bytes), last_ns) << bytes;
    last_ns = price.price_ns(bytes);
  }
}

TEST(CollectivePrice, FallsToTheFloorOnlyWithABurst) {
  CollectivePrice price{.latency_ns = 100, .bandwidth_bytes_per_s = 1e9};
  EXPECT_EQ(price.floor_ns(1000), 1100);
  price.burst_bytes = 5000;
  price.peak_bandwidth_bytes_per_s = 1e10;
  EXPECT_EQ(price.floor_ns(1000), 200);
}

TEST(CostModel, PricesUnknownUnitsByTheRooflineOfTheirKind) {
  CostModel costs;
  costs.flops_per_s = 1e9;
  costs.bytes_per_s = 1e9;
  costs.unit_overhead_ns = 10;
  costs.library.flops_per_s = 1e10;
  Unit unit;
  unit.flops = 1000;
  unit.bytes = 500;
  EXPECT_EQ(costs.price(unit).alone_ns, 1010);
  EXPECT_EQ(costs.price(unit).source, PriceSource::kModelled);
  unit.kind = UnitKind::kLibrary;
  EXPECT_EQ(costs.price(unit).alone_ns, 100);
}

TEST(CostModel, TrustsACollectiveBetweenItsRecordedSizesAlone) {
  CostModel costs;
  costs.collectives["all-reduce/f32/2"] = {
      .points = {{1000, 1200}, {4000, 4800}}, .source = PriceSource::kMeasured};
  Schedule schedule;
  schedule.units.resize(3);
  const auto collective = [&](size_t place, PrimitiveType type,
                              int64_t bytes) -> Unit& {
    Unit& unit = schedule.units[place];
    unit.kind = UnitKind::kCollective;
    unit.collective.type = type;
    unit.collective.bytes = bytes;
    unit.collective.groups = {{0, 1}};
    return unit;
  };
  EXPECT_EQ(costs.collective_source(collective(0, PrimitiveType::kF32, 1000)),
            PriceSource::kMeasured);
  EXPECT_EQ(costs.collective_source(collective(1, PrimitiveType::kF32, 4001)),
            PriceSource::kModelled);
  EXPECT_EQ(costs.collective_source(collective(2, PrimitiveType::kBF16, 2000)),
            PriceSource::kModelled);
  EXPECT_EQ(modelled_collectives(schedule, costs),
            (std::vector<std::string>{
                "all-reduce/bf16/2 was not recorded: modelled by the price of "
                "all-reduce/f32/2",
                "all-reduce/f32/2 was recorded from 1000 to 4000 bytes: "
                "beyond, modelled by latency and bandwidth"}));
}

// A permute's groups differ in size: ranks 0 to 2 hand on, rank 3 keeps.
TEST(CostModel, PricesByTheLargestGroup) {
  CollectiveSpec spec;
  spec.kind = CollectiveKind::kPermute;
  spec.groups = {{3}, {0, 1, 2}};
  EXPECT_EQ(collective_key(spec), "collective-permute/f32/3");
}

TEST(CostModel, SaysThatRanksMeetInsideLoops) {
  Schedule schedule;
  schedule.units.resize(3);
  schedule.units[1].name = "while.5";
  schedule.units[2].name = "while.9";
  for (const size_t loop : {1U, 2U}) {
    schedule.units[loop].kind = UnitKind::kRoutine;
    schedule.units[loop].routine.communicates = true;
    schedule.units[loop].routine.communicated_bytes = 64;
  }
  EXPECT_EQ(modelled_collectives(schedule, {}),
            (std::vector<std::string>{
                "while.5 and 1 more: ranks meet inside (128 bytes a step at "
                "least); that is part of the unit's own time, which no bucket, "
                "link or late rank changes here"}));
}

TEST(CostModel, SaysWhichPricesNoRecordingTold) {
  CostModel costs;
  costs.units["known"] = {.alone_ns = 7, .source = PriceSource::kMeasured};
  costs.roofline_residual = 0.25;
  costs.contention.kernel = 1.5;
  Schedule schedule;
  schedule.ranks = 2;
  schedule.units.resize(2);
  schedule.units[0].key = "known";
  schedule.units[1].key = "new";
  const std::string one =
      "1 unit was never measured: modelled by a roofline that is 25 % off in "
      "the mean";
  EXPECT_EQ(assumed_prices(schedule, costs), std::vector<std::string>{one});

  Unit meeting;
  meeting.kind = UnitKind::kCollective;
  meeting.stream = Stream::kCommunication;
  schedule.units.push_back(meeting);
  EXPECT_EQ(assumed_prices(schedule, costs), std::vector<std::string>{one});
  costs.contention.compute_is_assumed = true;
  const std::vector<std::string> both = {
      one,
      "no run had compute beside transfers: that compute then takes 1.50 times "
      "as long is assumed, from what TCP costs a core"};
  EXPECT_EQ(assumed_prices(schedule, costs), both);
  schedule.ranks = 1;
  EXPECT_EQ(assumed_prices(schedule, costs), std::vector<std::string>{one});
  costs.units["new"] = costs.units["known"];
  EXPECT_EQ(assumed_prices(schedule, costs), std::vector<std::string>{});
}

TEST(CostModel, FallsBackToACollectiveOfTheSameKind) {
  CostModel costs;
  costs.collectives["all-reduce/other"] = {.latency_ns = 5};
  Unit unit;
  unit.kind = UnitKind::kCollective;
  ASSERT_NE(costs.find_collective(unit), nullptr);
  EXPECT_EQ(costs.find_collective(unit)->price_ns(0), 5);
  EXPECT_EQ(CostModel{}.find_collective(unit), nullptr);
}

// A rank alone copies: no price of a link, and none from a link.
TEST(CostModel, ACopyIsNoPriceOfALink) {
  CostModel costs;
  costs.collectives["all-reduce/f32/1"] = {.latency_ns = 1};
  Unit meeting, copy;
  meeting.kind = copy.kind = UnitKind::kCollective;
  meeting.collective.groups = {{0, 1}};
  copy.collective.groups = {{0}, {1}};
  EXPECT_EQ(costs.find_collective(meeting), nullptr);
  ASSERT_NE(costs.find_collective(copy), nullptr);
  EXPECT_EQ(costs.find_collective(copy)->price_ns(0), 1);

  costs.collectives = {{"all-reduce/f32/2", {.latency_ns = 50}}};
  EXPECT_EQ(costs.find_collective(copy), nullptr);
  Schedule schedule;
  schedule.units = {copy};
  EXPECT_EQ(modelled_collectives(schedule, costs),
            (std::vector<std::string>{"no collective of one rank alone was "
                                      "recorded: all-reduce/f32/1 is free"}));
}

TEST(FitCollective, SharesPreemptionOverTransfersNotOverBytes) {
  // 1 KB in 20 us and 1 MB in 520 us: 19.5 us + 0.5 ns a byte. Every tenth
  // transfer, of either size, waits 2 ms for a core. Of that, what exceeds four
  // times the typical time is preemption: 2020 - 80 = 1940 us of the small,
  // 2520 - 2080 = 440 us of the big, on average (194 + 44) / 2 = 119 us a
  // transfer, at any size.
  std::vector<TransferSample> samples;
  for (int32_t i = 0; i < 400; ++i) {
    const bool is_big = i % 2 == 1;
    const double preempted_ns = i / 2 % 10 == 0 ? 2e6 : 0;
    samples.push_back({.step = i / 20,
                       .bytes = is_big ? 1e6 : 1e3,
                       .duration_ns = (is_big ? 520e3 : 20e3) + preempted_ns,
                       .idle_ns = 1e6});
  }
  const CollectivePrice price = fit_collective(samples).price;
  EXPECT_GT(price.latency_ns, 119e3);
  EXPECT_LT(price.latency_ns, 160e3);
  // Ten times the bytes do not bring ten times the preemption: 5.02 ms of
  // wire and the same 119 us, within the 10 % that the rest of it may add.
  EXPECT_NEAR(price.price_ns(1e7), 5.14e6, 0.6e6);
}

TEST(FitCollective, ASlowdownIsNotFittedToWhatALineSays) {
  // Two sizes on one line, 60 us + 0.5 ns a byte; the small one had compute
  // beside it, which cost nothing.
  std::vector<TransferSample> samples;
  for (int32_t i = 0; i < 8; ++i) {
    const double bytes = i % 2 == 0 ? 2162688 : 12128256;
    samples.push_back({.step = i / 2,
                       .bytes = bytes,
                       .duration_ns = 60e3 + 0.5 * bytes,
                       .beside = i % 2 == 0 ? 1.0 : 0.1});
  }
  const CollectiveFit fit = fit_collective(samples);
  EXPECT_EQ(fit.slowdown, 1);
  EXPECT_NEAR(fit.price.latency_ns, 60e3, 6e3);
}

TEST(FitSlowdown, FindsTheFactorFromMixedOverlaps) {
  // Alone 100 and 200; beside all along at 1.5: 150 and 300; half of it:
  // d = 100 + d/2 / 3 = 120. The prior at 1.5 changes nothing.
  const std::map<std::string, ContentionKey> keys = {
      {"a", {.samples = {{100, 0}, {150, 150}, {120, 60}}}},
      {"b", {.alone_ns = 200, .samples = {{300, 300}}}}};
  EXPECT_NEAR(fit_slowdown(keys, 1.5).value_or(0), 1.5, 1e-9);
}

TEST(FitSlowdown, IsDrawnToTheExpectedWithoutMuchEvidence) {
  const std::map<std::string, ContentionKey> keys = {
      {"a", {.alone_ns = 100, .samples = {{1000, 1}, {100, 0}}}}};
  EXPECT_GT(fit_slowdown(keys, 2).value_or(0), 1.5);
  const std::map<std::string, ContentionKey> faster = {
      {"a", {.alone_ns = 100, .samples = {{50, 50}}}}};
  EXPECT_EQ(fit_slowdown(faster, 2), 1);
}

TEST(FitSlowdown, SaysNothingWithoutContrast) {
  EXPECT_FALSE(fit_slowdown({{"a", {.samples = {{100, 0}}}}}, 2).has_value());
  EXPECT_FALSE(fit_slowdown({{"a", {.samples = {{9, 9}}}}}, 2).has_value());
  EXPECT_FALSE(fit_slowdown({}, 2).has_value());
}

}  // namespace
}  // namespace reprise
