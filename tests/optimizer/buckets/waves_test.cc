// Steps of two waves, with buckets within waves against every partition of
// their six collectives: as that of SAM, three gradients, and three more at the
// point that the first ones lead to; as that of FSDP, three gathers of
// parameters, and three scatters of gradients.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "data/hlo/hlo.h"
#include "optimizer/baselines/baselines.h"
#include "optimizer/optimize.h"
#include "optimizer/pricing/least_speedup.h"
#include "optimizer/pricing/order_rule.h"
#include "optimizer/pricing/step_bound.h"
#include "optimizer/search/plan_search.h"
#include "tests/optimizer/synthetic_costs.h"

namespace reprise {
namespace {

constexpr std::string_view kTwoWaves = R"(HloModule waves
sum {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT s = f32[] add(p, q)
}
ENTRY step {
  x = f32[256,256] parameter(0)
  a0 = f32[256,256] exponential(x)
  a1 = f32[256,256] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  a2 = f32[256,256] dot(a1, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  first0 = f32[256,256] all-reduce(a0), replica_groups={{0,1}}, to_apply=sum
  first1 = f32[256,256] all-reduce(a1), replica_groups={{0,1}}, to_apply=sum
  first2 = f32[256,256] all-reduce(a2), replica_groups={{0,1}}, to_apply=sum
  c0 = f32[256,256] dot(first0, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  c1 = f32[256,256] add(c0, first1)
  point = f32[256,256] add(c1, first2)
  back0 = f32[256,256] dot(point, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  back1 = f32[256,256] dot(back0, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  back2 = f32[256,256] dot(back1, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  second0 = f32[256,256] all-reduce(back0), replica_groups={{0,1}}, to_apply=sum
  second1 = f32[256,256] all-reduce(back1), replica_groups={{0,1}}, to_apply=sum
  second2 = f32[256,256] all-reduce(back2), replica_groups={{0,1}}, to_apply=sum
  u0 = f32[256,256] multiply(second0, x)
  u1 = f32[256,256] multiply(second1, x)
  u2 = f32[256,256] multiply(second2, x)
  ROOT out = (f32[256,256], f32[256,256], f32[256,256]) tuple(u0, u1, u2)
}
)";

// A replicated scale has its gradient reduced between the scatters.
constexpr std::string_view kSharded = R"(HloModule sharded
sum {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT s = f32[] add(p, q)
}
ENTRY step {
  x = f32[256,256] parameter(0)
  p0 = f32[128,256] parameter(1)
  p1 = f32[128,256] parameter(2)
  p2 = f32[128,256] parameter(3)
  w0 = f32[256,256] all-gather(p0), replica_groups={{0,1}}, dimensions={0}
  h0 = f32[256,256] dot(x, w0), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  w1 = f32[256,256] all-gather(p1), replica_groups={{0,1}}, dimensions={0}
  h1 = f32[256,256] dot(h0, w1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  w2 = f32[256,256] all-gather(p2), replica_groups={{0,1}}, dimensions={0}
  h2 = f32[256,256] dot(h1, w2), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  b2 = f32[256,256] dot(h1, h2), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  g2 = f32[128,256] reduce-scatter(b2), replica_groups={{0,1}}, dimensions={0}, to_apply=sum
  s2 = f32[256,256] all-reduce(h2), replica_groups={{0,1}}, to_apply=sum
  b1 = f32[256,256] dot(h0, b2), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  g1 = f32[128,256] reduce-scatter(b1), replica_groups={{0,1}}, dimensions={0}, to_apply=sum
  b0 = f32[256,256] dot(x, b1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  g0 = f32[128,256] reduce-scatter(b0), replica_groups={{0,1}}, dimensions={0}, to_apply=sum
  n0 = f32[128,256] subtract(p0, g0)
  n1 = f32[128,256] subtract(p1, g1)
  n2 = f32[128,256] subtract(p2, g2)
  ROOT out = (f32[128,256], f32[128,256], f32[128,256], f32[256,256]) tuple(n0, n1, n2, s2)
}
)";

InlinedModule program(std::string_view text) {
  const Result<Module> parsed = parse_hlo(text);
  EXPECT_TRUE(parsed.has_value());
  return *inline_calls(*parsed);
}

CostModel costs_of(double latency_ns, double bandwidth_bytes_per_s) {
  CostModel costs = synthetic_costs();
  CollectivePrice& link = costs.collectives.begin()->second;
  link.latency_ns = latency_ns;
  link.bandwidth_bytes_per_s = bandwidth_bytes_per_s;
  return costs;
}

/// Every partition of `slots` into buckets, as one number for each slot.
void add_partitions(size_t slots, std::vector<int32_t> bucket_of,
                    std::vector<std::vector<int32_t>>& partitions) {
  if (bucket_of.size() == slots) {
    partitions.push_back(std::move(bucket_of));
    return;
  }
  const int32_t buckets =
      bucket_of.empty() ? 0 : *std::ranges::max_element(bucket_of) + 1;
  for (int32_t bucket = 0; bucket <= buckets; ++bucket) {
    bucket_of.push_back(bucket);
    add_partitions(slots, bucket_of, partitions);
    bucket_of.pop_back();
  }
}

PlanChoice plan_of(const std::vector<int32_t>& bucket_of) {
  PlanChoice plan{.ranks = 2};
  plan.buckets.resize(bucket_of.size());
  for (size_t slot = 0; slot < bucket_of.size(); ++slot) {
    plan.buckets[static_cast<size_t>(bucket_of[slot])].slots.push_back(
        static_cast<int32_t>(slot));
  }
  std::erase_if(plan.buckets,
                [](const ChosenBucket& each) { return each.slots.size() < 2; });
  return plan;
}

struct Best {
  /// Of the plan of the least score under the order that search judges buckets
  /// by, and its step time.
  int64_t score = std::numeric_limits<int64_t>::max();
  int64_t step_time_ns = 0;
  /// Under either order.
  int64_t least_step_time_ns = std::numeric_limits<int64_t>::max();
  int plans = 0;
};

/// Of all partitions that are plans, each in two good orders.
Best best_of_all(PlanPricer& pricer) {
  std::vector<std::vector<int32_t>> partitions;
  add_partitions(pricer.ops().slots.size(), {}, partitions);
  Best best;
  for (const auto& partition : partitions) {
    auto priced = pricer.price(plan_of(partition));
    if (!priced) continue;  // One of its members waits for another, or differs.
    ++best.plans;
    for (const bool idle : {false, true}) {
      const auto ordered = order_by({.idle_updates = idle}, pricer, **priced);
      EXPECT_TRUE(ordered.has_value());
      const int64_t step_time_ns = (*ordered)->step_time_ns;
      best.least_step_time_ns = std::min(best.least_step_time_ns, step_time_ns);
      if (!idle || search_score(**ordered) >= best.score) continue;
      best.score = search_score(**ordered);
      best.step_time_ns = step_time_ns;
    }
  }
  return best;
}

void expect_best(const InlinedModule& module, const CostModel& costs) {
  auto pricer = PlanPricer::make(module, costs);
  ASSERT_TRUE(pricer.has_value());
  const Best best = best_of_all(**pricer);
  EXPECT_EQ(best.plans, 5 * 5);  // Partitions of three, twice.
  OptimizeOptions options;
  options.only = {"buckets", "order"};
  const auto result =
      optimize(module, identity_plan(module, 2), costs, options);
  ASSERT_TRUE(result.has_value()) << result.error().message;
  const Status valid = validate_plan(result->plan, module);
  ASSERT_TRUE(valid.has_value()) << valid.error().message;
  const auto found =
      (*pricer)->price(*bind_plan((*pricer)->ops(), result->plan));
  ASSERT_TRUE(found.has_value());
  // Of a plan that gains less over the recorded one, that is kept.
  EXPECT_LE(static_cast<double>((*found)->step_time_ns),
            kLeastSpeedup * static_cast<double>(best.step_time_ns));
  const auto bound = step_lower_bound(**pricer, **found);
  ASSERT_TRUE(bound.has_value());
  EXPECT_LE(*bound, (*found)->step_time_ns);
  EXPECT_LE(*bound, best.least_step_time_ns);
}

struct Step {
  const char* name;
  std::string_view text;
};

class Waves : public ::testing::TestWithParam<Step> {};

TEST_P(Waves, TheSearchFindsTheBestOfAllPartitions) {
  const InlinedModule module = program(GetParam().text);
  for (const double latency_ns : {1e3, 200e3, 2e6}) {
    for (const double bandwidth_bytes_per_s : {0.12e9, 2e9}) {
      SCOPED_TRACE(fmt::format("{} {}", latency_ns, bandwidth_bytes_per_s));
      expect_best(module, costs_of(latency_ns, bandwidth_bytes_per_s));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Steps, Waves,
                         ::testing::Values(Step{"TwoGradients", kTwoWaves},
                                           Step{"ShardedParameters", kSharded}),
                         [](const auto& one) {
                           return std::string(one.param.name);
                         });

// XLA has a combiner of each kind; DDP and Horovod reduce gradients alone.
TEST(WaveBaselines, XlaJoinsGathersAndScatters) {
  const InlinedModule module = program(kSharded);
  const auto plan = baseline_plan("xla", module, 2, synthetic_costs());
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  ASSERT_EQ(plan->buckets.size(), 2u);
  for (const Bucket& bucket : plan->buckets) {
    ASSERT_EQ(bucket.collectives.size(), 3u);
    for (const std::string& name : bucket.collectives)
      EXPECT_EQ(name[0], bucket.collectives[0][0]) << name;
  }
  for (const char* name : {"ddp", "horovod"}) {
    const auto other = baseline_plan(name, module, 2, synthetic_costs());
    ASSERT_TRUE(other.has_value()) << other.error().message;
    EXPECT_TRUE(other->buckets.empty()) << name;
  }
}

TEST(WaveBaselines, XlaJoinsBoth) {
  const InlinedModule module = program(kTwoWaves);
  const auto plan = baseline_plan("xla", module, 2, synthetic_costs());
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  ASSERT_EQ(plan->buckets.size(), 2u);
  for (const Bucket& bucket : plan->buckets) {
    ASSERT_EQ(bucket.collectives.size(), 3u);
    for (const std::string& name : bucket.collectives)
      EXPECT_EQ(name.substr(0, 5), bucket.collectives[0].substr(0, 5)) << name;
  }
  const auto ddp = baseline_plan("ddp", module, 2, synthetic_costs());
  ASSERT_TRUE(ddp.has_value());
  for (const Bucket& bucket : ddp->buckets) {
    for (const std::string& name : bucket.collectives)
      EXPECT_EQ(name.substr(0, 6), "second") << name;
  }
}

}  // namespace
}  // namespace reprise
