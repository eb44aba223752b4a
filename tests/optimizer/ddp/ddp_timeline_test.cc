#include "optimizer/ddp/ddp_timeline.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "optimizer/ddp/ddp_plan.h"
#include "replay/graph/step_rules.h"
#include "replay/simulate/decide.h"

namespace reprise {
namespace {

DdpModel model_of(const std::vector<std::pair<double, int64_t>>& gradients) {
  DdpModel model;
  for (const auto& [ready_ns, bytes] : gradients) {
    model.gradients.push_back(
        {.name = {}, .type = "float", .shape = {}, .bytes = bytes});
    model.ready_ns.push_back(ready_ns);
  }
  model.price.bandwidth_bytes_per_s = 1e9;  // A byte a nanosecond.
  model.price.latency_ns = 10;
  return model;
}

TEST(DdpTimeline, SendsBucketsInOrderOneAtATime) {
  DdpModel model = model_of({{100, 50}, {120, 30}, {300, 20}});
  model.tail_ns = 7;
  const DdpTimeline timeline = simulate_buckets(model, {{{0}}, {{1}}, {{2}}});
  // 100 + 10 + 50 = 160; the second waits for it: 160 + 10 + 30 = 200; the
  // third starts when ready: 300 + 10 + 20 = 330; + 7.
  EXPECT_DOUBLE_EQ(timeline.arrived_ns[0], 160);
  EXPECT_DOUBLE_EQ(timeline.sent_ns[1], 160);
  EXPECT_DOUBLE_EQ(timeline.arrived_ns[1], 200);
  EXPECT_DOUBLE_EQ(timeline.sent_ns[2], 300);
  EXPECT_DOUBLE_EQ(timeline.step_ns, 337);
}

TEST(DdpTimeline, TwoWorkersHideLatencyAndShareTheWire) {
  DdpModel model = model_of({{100, 40}, {100, 40}});
  model.workers = 2;
  const DdpTimeline timeline = simulate_buckets(model, {{{0}}, {{1}}});
  // Both pass their latency until 110, then 80 bytes share the wire: 190.
  EXPECT_DOUBLE_EQ(timeline.arrived_ns[0], 190);
  EXPECT_DOUBLE_EQ(timeline.step_ns, 190);
}

TEST(DdpTimeline, ComputeAndTransfersSlowEachOther) {
  DdpModel model = model_of({{100, 90}, {200, 10}});
  model.compute_slowdown = 1.25;
  model.collective_slowdown = 2;
  const DdpTimeline timeline = simulate_buckets(model, {{{0}}, {{1}}});
  // The first needs 100 of work; 100 of compute take 125 beside it, in which
  // it does 62.5; from 225 on it goes at full rate: 37.5 more.
  EXPECT_DOUBLE_EQ(timeline.ready_ns[1], 225);
  EXPECT_DOUBLE_EQ(timeline.arrived_ns[0], 262.5);
  EXPECT_DOUBLE_EQ(timeline.step_ns, 282.5);
}

TEST(DdpTimeline, ABucketClosesWhenItReachesItsCap) {
  const DdpModel model =
      model_of({{1, 30}, {2, 80}, {3, 60}, {4, 10}, {5, 100}, {6, 1}});
  // 30 + 80 >= 100; 60 + 10 >= 70; then 100 >= 70, and 1 is left over.
  const std::vector<DdpBucket> expected = {{{0, 1}}, {{2, 3}}, {{4}}, {{5}}};
  EXPECT_EQ(ddp_buckets(model.gradients, {100, 70}), expected);
  EXPECT_EQ(ddp_buckets(model.gradients, caps_of(model.gradients, expected)),
            expected);
}

TEST(DdpTimeline, TypesHaveBucketsAndCapsOfTheirOwn) {
  DdpModel model = model_of({{1, 10}, {2, 10}, {3, 10}, {4, 10}, {5, 10}});
  model.gradients[1].type = model.gradients[4].type = "half";
  // float: 0 + 2 reach 20, then the cap is 100: 3 is left over. half: 1 + 4
  // reach 20 at the end.
  EXPECT_EQ(ddp_buckets(model.gradients, {20, 100}),
            (std::vector<DdpBucket>{{{0, 2}}, {{1, 4}}, {{3}}}));
}

/// From 0 to below `limit`.
int draw(std::mt19937& random, uint32_t limit) {
  return static_cast<int>(random() % limit);
}

/// The same step as a graph: a chain of gradients, and buckets that a resource
/// of `workers` sends in order over one link.
TimedGraph graph_of(const DdpModel& model,
                    const std::vector<DdpBucket>& buckets) {
  TimedGraph graph;
  graph.tick_bits = kTickBits;
  graph.ranks.push_back({});
  graph.capacity = {0, static_cast<uint32_t>(model.workers)};
  const auto add = [&](uint32_t stream, double duration_ns, double slowdown) {
    graph.first.push_back(static_cast<uint32_t>(graph.edges.size()));
    graph.origin.push_back(static_cast<uint32_t>(graph.size()));
    graph.rank.push_back(0);
    graph.resource.push_back(stream);
    graph.duration.push_back(ticks_of(duration_ns, kTickBits));
    graph.gap.push_back(0);
    graph.meeting.push_back(1);
    graph.waits.push_back(stream == 1);
    graph.slowdown.push_back(slowdown_of(slowdown));
  };
  const uint32_t gradients = static_cast<uint32_t>(model.ready_ns.size());
  for (uint32_t i = 0; i < gradients; ++i) {
    add(0, model.ready_ns[i] - (i > 0 ? model.ready_ns[i - 1] : 0),
        model.compute_slowdown);
    graph.collective.push_back(-1);
    if (i > 0) graph.edges.push_back({0, i - 1, EdgeKind::kStream, false});
  }
  for (uint32_t i = 0; i < buckets.size(); ++i) {
    double bytes = 0;
    for (const uint32_t gradient : buckets[i].gradients) {
      bytes += static_cast<double>(model.gradients[gradient].bytes);
    }
    add(1, model.price.price_ns(bytes), model.collective_slowdown);
    graph.collective.push_back(static_cast<int32_t>(i));
    graph.transfers.push_back(
        {.latency_ns = std::llround(model.price.latency_ns), .link = 0});
    graph.edges.push_back(
        {0, buckets[i].gradients.back(), EdgeKind::kDependency, false});
    if (i == 0) continue;
    graph.edges.push_back({0, gradients + i - 1, EdgeKind::kStream, true});
  }
  graph.first.push_back(static_cast<uint32_t>(graph.edges.size()));
  return graph;
}

TEST(DdpTimeline, IsTheStepThatItsGraphDecides) {
  for (uint32_t seed = 0; seed < 500; ++seed) {
    std::mt19937 random(seed);
    std::vector<std::pair<double, int64_t>> gradients;
    double ready_ns = 0;
    for (int i = 1 + draw(random, 12); i > 0; --i) {
      ready_ns += 1 + draw(random, 2000);
      gradients.emplace_back(ready_ns, 1 + draw(random, 3000));
    }
    DdpModel model = model_of(gradients);
    model.workers = 1 + draw(random, 3);
    model.compute_slowdown = 1 + draw(random, 5) / 8.0;
    model.collective_slowdown = 1 + draw(random, 5) / 8.0;
    const std::vector<DdpBucket> buckets = ddp_buckets(
        model.gradients, {1 + draw(random, 4000), 1 + draw(random, 4000)});
    const DdpTimeline timeline = simulate_buckets(model, buckets);
    const GraphTimes times = decide(graph_of(model, buckets));
    // Ends are whole nanoseconds there: each end and each change of rate may be
    // late by one.
    const double slack = 3.0 * static_cast<double>(times.end_ns.size());
    for (size_t i = 0; i < gradients.size(); ++i) {
      ASSERT_NEAR(static_cast<double>(times.end_ns[i]), timeline.ready_ns[i],
                  slack)
          << seed;
    }
    for (size_t i = 0; i < buckets.size(); ++i) {
      ASSERT_NEAR(static_cast<double>(times.end_ns[gradients.size() + i]),
                  timeline.arrived_ns[i], slack)
          << seed;
    }
  }
}

/// All ways to cut the gradients into runs.
double best_by_force(const DdpModel& model) {
  const size_t count = model.gradients.size();
  double best_ns = HUGE_VAL;
  for (uint32_t cuts = 0; cuts < 1U << (count - 1); ++cuts) {
    std::vector<DdpBucket> buckets(1);
    for (uint32_t i = 0; i < count; ++i) {
      buckets.back().gradients.push_back(i);
      if (i + 1 < count && (cuts >> i & 1U) != 0) buckets.emplace_back();
    }
    best_ns = std::min(best_ns, simulate_buckets(model, buckets).step_ns);
  }
  return best_ns;
}

// One at a time and without contention the dynamic program is exact. (Whole
// nanoseconds: it rounds prices.)
TEST(DdpPlan, IsTheBestOfAllBuckets) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::pair<double, int64_t>> gradients;
    double ready_ns = 0;
    for (int i = 0; i < 9; ++i) {
      ready_ns += draw(random, 200);
      gradients.emplace_back(ready_ns, 1 + draw(random, 200));
    }
    DdpModel model = model_of(gradients);
    model.price.latency_ns = draw(random, 100);
    const DdpSearch search = search_buckets(model);
    EXPECT_NEAR(search.plan.step_ns, best_by_force(model), 1e-6);
    EXPECT_LE(search.lower_bound_ns, search.plan.step_ns + 1e-6);
  }
}

TEST(DdpPlan, IsNeverSlowerThanAnyBaselineAndNeverBelowTheBound) {
  std::mt19937 random(11);
  for (int round = 0; round < 100; ++round) {
    std::vector<std::pair<double, int64_t>> gradients;
    double ready_ns = 0;
    for (int i = 0; i < 8; ++i) {
      ready_ns += 1e6 * draw(random, 20);
      gradients.emplace_back(ready_ns, 1 + draw(random, 20'000'000));
    }
    DdpModel model = model_of(gradients);
    model.workers = 1 + draw(random, 2);
    model.price.latency_ns = 1e4 * draw(random, 200);
    model.compute_slowdown = 1 + 0.1 * draw(random, 5);
    model.collective_slowdown = 1 + 0.1 * draw(random, 5);
    const DdpSearch search = search_buckets(model);
    const double best_ns = best_by_force(model);
    for (const DdpSetting& each : search.baselines) {
      EXPECT_LE(search.plan.step_ns, each.step_ns * (1 + 1e-9)) << each.name;
    }
    EXPECT_LE(search.lower_bound_ns, best_ns * (1 + 1e-9));
    // Contention and two workers are outside the program's model: it is run on
    // the timelines that they give, and stays close.
    EXPECT_LE(search.plan.step_ns, best_ns * 1.05);
  }
}

// Two gradients of 60 MB at 0.1 s of backward each, 1 GB/s and 1 ms: each is
// sent within 61 ms while the next is made, but not both within 0.1 s, so the
// best plan sends each alone. Later ones that are ready together share one
// latency: the step ends 11 ms after backward.
TEST(DdpPlan, SendsAloneWhatHidesAndTogetherWhatDoesNot) {
  DdpModel model = model_of({{1e8, 60'000'000},
                             {2e8, 60'000'000},
                             {3e8, 4'000'000},
                             {3e8, 3'000'000},
                             {3e8, 3'000'000}});
  model.price.latency_ns = 1e6;
  const DdpSearch search = search_buckets(model);
  EXPECT_EQ(search.plan.buckets,
            (std::vector<DdpBucket>{{{0}}, {{1}}, {{2, 3, 4}}}));
  EXPECT_NEAR(search.plan.step_ns, 3e8 + 1e6 + 1e7, 1);
  EXPECT_NEAR(search.lower_bound_ns, search.plan.step_ns, 1);
}

}  // namespace
}  // namespace reprise
