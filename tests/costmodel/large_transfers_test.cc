// Buckets that measure what a trace cannot tell, the orders that they run in,
// and what is learnt from them.
#include "costmodel/large_transfers.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "costmodel/fit_costs.h"
#include "data/schedule/dependencies.h"
#include "tests/replay/simulate/synthetic_run.h"

namespace reprise {
namespace {

// A link whose larger buckets leave the caches: half as much again from 2 MB.
CostModel costs_that_bend(const Schedule& schedule) {
  CostModel costs = true_costs(schedule, 0);
  CollectivePrice& link = costs.collectives.begin()->second;
  for (const double bytes : {1.0, 1.1e6, 2.2e6, 12e6}) {
    const double bend = bytes > 2e6 ? 1.5 : 1;
    link.points.emplace_back(
        bytes,
        bend * (link.latency_ns + bytes / link.bandwidth_bytes_per_s * 1e9));
  }
  return costs;
}

TEST(LargeTransfers, AreLearntFromARunWithBuckets) {
  const Schedule recorded = training_schedule({});
  const CostModel truth = costs_that_bend(recorded);
  Trace trace = run_trace(recorded, truth, {.noise = 0.05, .seed = 8});
  const Schedule probed = training_schedule({.bucket_bytes = 4 << 20});
  const Trace run = run_trace(probed, truth, {.noise = 0.05, .seed = 9});
  const auto large = [&] {
    return fit_costs(trace, recorded, {})
               ->collectives.begin()
               ->second.price_ns(4.5e6) /
           truth.collectives.begin()->second.price_ns(4.5e6);
  };
  EXPECT_LT(large(), 0.85);  // As the small ones tell it.
  const auto sizes = size_measurements({trace, recorded}, {run, probed}, 1);
  ASSERT_TRUE(sizes.has_value());
  trace.measurements = *sizes;
  EXPECT_NEAR(large(), 1, 0.06);
}

TEST(LargeTransfers, KeepTheFormulaOfALinkWithCredit) {
  CollectivePrice price{.latency_ns = 100,
                        .bandwidth_bytes_per_s = 1e9,
                        .points = {{1000, 1100}},
                        .burst_bytes = 500};
  const std::vector<Measurement> measured = {{.key = "size/all-reduce/9000",
                                              .unit = "",
                                              .context = kSizeContext,
                                              .median_ns = 2'000'000},
                                             {.key = "size/other/9000",
                                              .unit = "",
                                              .context = kSizeContext,
                                              .median_ns = 3'000'000}};
  add_measured_sizes(measured, "all-reduce", price);
  EXPECT_EQ(price.points.size(), 1u);
  price.burst_bytes = 0;
  add_measured_sizes(measured, "all-reduce", price);
  ASSERT_EQ(price.points.size(), 3u);
  EXPECT_NEAR(price.price_ns(9000), 2 * (1100 + 8000), 1e-6);
  EXPECT_NEAR(price.price_ns(16 * 9000), 2 * (1100 + 143000), 1e-6);
}

TEST(LargeTransfers, ProbeWithBucketsOfGrowingSizesThatHoldEveryGradient) {
  const Schedule schedule = training_schedule({});
  const std::vector<Bucket> buckets = probing_buckets(schedule);
  std::map<std::string, int64_t> bytes;
  for (const Unit& unit : schedule.units) {
    if (unit.kind == UnitKind::kCollective) {
      bytes[unit.name] = unit.collective.bytes;
    }
  }
  int64_t total = 0, last = 0;
  std::set<std::string> seen;
  for (const Bucket& bucket : buckets) {
    int64_t size = 0;
    for (const std::string& name : bucket.collectives) {
      EXPECT_TRUE(seen.insert(name).second) << name;
      size += bytes.at(name);
    }
    EXPECT_GT(size, last);
    total += last = size;
  }
  EXPECT_GE(buckets.size(), 3u);
  EXPECT_GT(last, total / 3);
  EXPECT_EQ(seen.size(), bytes.size());
  Schedule bucketed = schedule;
  for (Unit& unit : bucketed.units) unit.collective.bucket = 0;
  EXPECT_TRUE(probing_buckets(bucketed).empty());
}

TEST(ApartOrder, RunsCollectivesAfterTheComputeThatNeedsNone) {
  const Schedule serial = training_schedule({.layers = 1, .serial = true});
  std::map<std::string, size_t> place;
  for (const std::string& name : apart_order(serial)) {
    place.emplace(name, place.size());
  }
  const std::vector<uint32_t> waits = collectives_before(serial);
  ASSERT_EQ(place.size(), serial.units.size());
  size_t last_free = 0, first_collective = place.size(), last_collective = 0,
         first_late = place.size();
  for (size_t unit = 0; unit < serial.units.size(); ++unit) {
    const size_t at = place.at(serial.units[unit].name);
    if (serial.units[unit].kind == UnitKind::kCollective) {
      first_collective = std::min(first_collective, at);
      last_collective = std::max(last_collective, at);
    } else if (waits[unit] > 0) {
      first_late = std::min(first_late, at);
    } else {
      last_free = std::max(last_free, at);
    }
  }
  EXPECT_LT(last_free, first_collective);
  EXPECT_LT(last_collective, first_late);
}

/// Sharded weights: a layer gathers its own, which all may do at once, and
/// scatters its gradient once all layers have computed.
Schedule sharded_schedule(int layers) {
  Schedule schedule;
  const auto add = [&](std::string name, UnitKind kind) {
    Unit& unit = schedule.units.emplace_back();
    unit.name = std::move(name);
    unit.kind = kind;
    unit.collective.bytes = 1 << 20;
    if (kind == UnitKind::kCollective) unit.stream = Stream::kCommunication;
    return static_cast<uint32_t>(schedule.units.size() - 1);
  };
  std::vector<uint32_t> computed;
  for (int layer = 0; layer < layers; ++layer) {
    const uint32_t gather =
        add(fmt::format("gather{}", layer), UnitKind::kCollective);
    schedule.units[gather].collective.kind = CollectiveKind::kAllGather;
    if (layer > 1)  // Not before the layer but one has computed.
      schedule.dependencies.push_back(
          {UnitId{computed[static_cast<size_t>(layer) - 2]}, UnitId{gather}, 0,
           true});
    const uint32_t layer_unit =
        add(fmt::format("layer{}", layer), UnitKind::kKernel);
    if (layer > 0)
      schedule.dependencies.push_back(
          {UnitId{computed.back()}, UnitId{layer_unit}, 0});
    schedule.dependencies.push_back({UnitId{gather}, UnitId{layer_unit}, 0});
    computed.push_back(layer_unit);
  }
  for (int layer = 0; layer < layers; ++layer) {
    const uint32_t scatter =
        add(fmt::format("scatter{}", layer), UnitKind::kCollective);
    schedule.units[scatter].collective.kind = CollectiveKind::kReduceScatter;
    schedule.dependencies.push_back(
        {UnitId{computed.back()}, UnitId{scatter}, 0});
  }
  return schedule;
}

TEST(LargeTransfers, ProbeEveryKindThatBucketsMayHold) {
  const Schedule schedule = sharded_schedule(10);
  std::map<std::string, size_t> held;
  for (const Bucket& bucket : probing_buckets(schedule)) {
    const std::string kind = bucket.collectives.front().substr(0, 6);
    for (const std::string& name : bucket.collectives)
      EXPECT_EQ(name.substr(0, 6), kind);
    held[kind] = std::max(held[kind], bucket.collectives.size());
  }
  EXPECT_EQ(held,
            (std::map<std::string, size_t>{{"gather", 6}, {"scatte", 6}}));
  const std::vector<std::string> order = apart_order(schedule);
  EXPECT_EQ(order.front(), "gather0");
  EXPECT_EQ(order[9], "gather9");
  EXPECT_EQ(order[10], "layer0");
  EXPECT_EQ(order[20], "scatter0");
}

TEST(OverlappedOrder, PutsWhatWaitsForCollectivesLast) {
  const Schedule serial = training_schedule({.layers = 1, .serial = true});
  const std::vector<std::string> order = overlapped_order(serial);
  std::vector<std::string> expected;
  for (const Unit& unit : training_schedule({.layers = 1}).units) {
    if (unit.kind != UnitKind::kCollective) expected.push_back(unit.name);
  }
  std::vector<std::string> computed;
  for (const std::string& name : order) {
    if (name[0] != 'b' || name.size() > 4) computed.push_back(name);
  }
  EXPECT_EQ(order.size(), serial.units.size());
  EXPECT_EQ(computed, expected);
}

INSTANTIATE_TEST_SUITE_P(Burst, FitCosts, ::testing::Values(0, 256e3));

}  // namespace
}  // namespace reprise
