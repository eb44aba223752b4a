// Priced greedy fusion against the best of all groupings of small graphs.
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <random>

#include "data/hlo/hlo.h"
#include "data/kernel/kernel_flops.h"
#include "optimizer/fusion/fusion.h"
#include "optimizer/pricing/plan_pricer.h"
#include "tests/optimizer/synthetic_costs.h"

namespace reprise {
namespace {

/// Elementwise ops, each of two earlier values or parameters; whatever nothing
/// reads is returned.
InlinedModule random_module(int ops, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string text = "HloModule m\n\nENTRY e {\n";
  std::vector<std::string> names{"p0", "p1", "p2"};
  for (size_t i = 0; i < names.size(); ++i) {
    text += fmt::format("  p{} = f32[4096] parameter({})\n", i, i);
  }
  std::vector<bool> is_read(names.size(), true);
  for (int op = 0; op < ops; ++op) {
    const size_t a = random() % names.size(), b = random() % names.size();
    is_read[a] = is_read[b] = true;
    text +=
        fmt::format("  v{} = f32[4096] {}({}, {})\n", op,
                    random() % 2 == 0 ? "add" : "multiply", names[a], names[b]);
    names.push_back(fmt::format("v{}", op));
    is_read.push_back(false);
  }
  std::vector<std::string> outputs, shapes;
  for (size_t i = 0; i < names.size(); ++i) {
    if (is_read[i]) continue;
    outputs.push_back(names[i]);
    shapes.emplace_back("f32[4096]");
  }
  text += fmt::format("  ROOT t = ({}) tuple({})\n}}\n",
                      fmt::join(shapes, ", "), fmt::join(outputs, ", "));
  const auto module = parse_hlo(text, "m");
  EXPECT_TRUE(module.has_value()) << module.error().message << text;
  return *inline_calls(*module);
}

/// Calls `visit(group_of [op])` for every way to put the ops into groups.
void each_partition(size_t ops,
                    const std::function<void(const std::vector<int>&)>& visit) {
  std::vector<int> group_of(ops, 0);
  const std::function<void(size_t, int)> place = [&](size_t op, int groups) {
    if (op == ops) return visit(group_of);
    for (int group = 0; group <= groups; ++group) {
      group_of[op] = group;
      place(op + 1, std::max(groups, group + 1));
    }
  };
  place(0, 0);
}

/// The shortest step of all groupings that are legal.
int64_t best_step_ns(PlanPricer& pricer, const Plan& identity, size_t ops) {
  int64_t best = std::numeric_limits<int64_t>::max();
  each_partition(ops, [&](const std::vector<int>& group_of) {
    Plan plan = identity;
    for (size_t group = 0; group < ops; ++group) {
      FusionGroup members{fmt::format("f{}", group), {}};
      for (size_t op = 0; op < ops; ++op) {
        if (group_of[op] == static_cast<int>(group))
          members.ops.push_back(fmt::format("v{}", op));
      }
      if (members.ops.size() > 1) plan.fusion.push_back(std::move(members));
    }
    const auto choice = bind_plan(pricer.ops(), plan);
    if (!choice) return;  // Not legal.
    const auto priced = pricer.price(*choice);
    if (priced) best = std::min(best, (*priced)->step_time_ns);
  });
  return best;
}

/// Prices are of a roofline, where fusing saves launches and traffic and costs
/// nothing, so greedy merges find an optimum but where one merge forbids two
/// others: within 10 % of it on every graph, and on it on most.
TEST(GreedyFusion, IsNearTheBestOfAllGroupings) {
  constexpr size_t kOps = 6;  // 203 groupings.
  constexpr uint64_t kGraphs = 40;
  const CostModel costs = synthetic_costs();
  size_t optimal = 0;
  for (uint64_t seed = 0; seed < kGraphs; ++seed) {
    const InlinedModule module = random_module(kOps, seed);
    auto pricer = PlanPricer::make(module, costs);
    ASSERT_TRUE(pricer.has_value());
    const Plan identity = identity_plan(module, 1);
    const auto tree = FusionTree::build((*pricer)->cache(), costs, {});
    ASSERT_TRUE(tree.has_value()) << tree.error().message;
    const auto greedy =
        (*pricer)->price({.ranks = 1, .fusion = tree->choose(costs)});
    ASSERT_TRUE(greedy.has_value()) << greedy.error().message;
    const int64_t best = best_step_ns(**pricer, identity, kOps);
    EXPECT_GE((*greedy)->step_time_ns, best) << seed;
    EXPECT_LE(static_cast<double>((*greedy)->step_time_ns),
              1.1 * static_cast<double>(best))
        << seed;
    if ((*greedy)->step_time_ns == best) ++optimal;
  }
  EXPECT_GT(optimal, kGraphs * 3 / 4);
}

/// Two reductions that fuse, and two more of one size whose second is padded
/// and cut again, which leaves its kernel as it was but no one kernel for both:
/// what was merged must run, whatever pattern it looked like.
TEST(GreedyFusion, OnlyMakesGroupsThatRun) {
  const auto parsed = parse_hlo(R"(HloModule m

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

ENTRY e {
  x = f32[7,8] parameter(0)
  y = f32[7,8] parameter(1)
  zero = f32[] constant(0)
  r0 = f32[7] reduce(x, zero), dimensions={1}, to_apply=add
  c0 = f32[7,1] reshape(r0)
  s0 = f32[7] reduce(c0, zero), dimensions={1}, to_apply=add
  r1 = f32[7] reduce(y, zero), dimensions={1}, to_apply=add
  c1 = f32[7,1] reshape(r1)
  s1 = f32[7] reduce(c1, zero), dimensions={1}, to_apply=add
  w1 = f32[8] pad(s1, zero), padding=1_0
  g1 = f32[7] pad(w1, zero), padding=-1_0
  ROOT t = (f32[7], f32[7], f32[7], f32[7]) tuple(r0, s0, r1, g1)
}
)",
                                "m");
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
  const InlinedModule module = *inline_calls(*parsed);
  const CostModel costs = synthetic_costs();
  auto pricer = PlanPricer::make(module, costs);
  ASSERT_TRUE(pricer.has_value());
  const auto tree = FusionTree::build((*pricer)->cache(), costs, {});
  ASSERT_TRUE(tree.has_value()) << tree.error().message;
  const auto priced = (*pricer)->price({.ranks = 1, .fusion = tree->merged()});
  EXPECT_TRUE(priced.has_value()) << priced.error().message;
}

/// Each level reads the one before at two places, so a kernel of n levels has
/// 2^n loads: a host compiler took 15 s for one of 1,700 statements.
TEST(GreedyFusion, MakesNoKernelThatTakesSecondsToCompile) {
  std::string text = R"(HloModule m
ENTRY e {
  zero = f32[] constant(0)
  v0 = f32[4096] parameter(0))";
  constexpr int kLevels = 10;
  for (int level = 1; level <= kLevels; ++level) {
    text += fmt::format(R"(
  a{0} = f32[4096] pad(v{1}, zero), padding={2}_-{2}
  b{0} = f32[4096] reverse(a{0}), dimensions={{0}}
  v{0} = f32[4096] add(a{0}, b{0}))",
                        level, level - 1, 1 << level);
  }
  const auto parsed = parse_hlo(
      text + fmt::format("\n  ROOT t = (f32[4096]) tuple(v{})\n}}", kLevels),
      "m");
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
  const InlinedModule module = *inline_calls(*parsed);
  CostModel costs = synthetic_costs();
  costs.unit_overhead_ns = 1e6;  // Every merge pays.
  auto pricer = PlanPricer::make(module, costs);
  ASSERT_TRUE(pricer.has_value());
  const auto tree = FusionTree::build((*pricer)->cache(), costs, {});
  ASSERT_TRUE(tree.has_value()) << tree.error().message;
  const auto schedule = lower_schedule({.ranks = 1, .fusion = tree->merged()},
                                       &(*pricer)->cache());
  ASSERT_TRUE(schedule.has_value()) << schedule.error().message;
  EXPECT_LT(schedule->units.size(), 10);
  for (const Kernel& kernel : schedule->kernels)
    EXPECT_LE(statement_count(kernel), 512) << kernel_text(kernel);
}

/// Kernels of a sum of `summands` arrays, one added after the other in so many
/// rounds.
std::vector<Kernel> kernels_of_sum(int summands, int rounds) {
  std::string text = "HloModule m\nENTRY e {\n  zero = f32[] constant(0)\n";
  for (int i = 0; i < summands; ++i)
    text += fmt::format("  p{0} = f32[4096] parameter({0})\n", i);
  text += "  v0 = f32[4096] negate(p0)\n";
  for (int i = 1; i <= summands * rounds; ++i)
    text += fmt::format("  v{} = f32[4096] add(v{}, p{})\n", i, i - 1,
                        i % summands);
  text +=
      fmt::format("  ROOT t = (f32[4096]) tuple(v{})\n}}\n", summands * rounds);
  const auto parsed = parse_hlo(text, "m");
  EXPECT_TRUE(parsed.has_value()) << parsed.error().message;
  const InlinedModule module = *inline_calls(*parsed);
  const CostModel costs = synthetic_costs();
  auto pricer = PlanPricer::make(module, costs);
  EXPECT_TRUE(pricer.has_value());
  const auto tree = FusionTree::build((*pricer)->cache(), costs, {});
  EXPECT_TRUE(tree.has_value()) << tree.error().message;
  const auto schedule = lower_schedule({.ranks = 1, .fusion = tree->merged()},
                                       &(*pricer)->cache());
  EXPECT_TRUE(schedule.has_value()) << schedule.error().message;
  return schedule->kernels;
}

TEST(GreedyFusion, LongChainsAreOneKernelWhereArraysAreFew) {
  const std::vector<Kernel> one = kernels_of_sum(10, 20);
  ASSERT_EQ(one.size(), 1U);
  EXPECT_EQ(one[0].arguments.size(), 11U);
  EXPECT_GT(kernels_of_sum(200, 1).size(), 1U);
}

}  // namespace
}  // namespace reprise
