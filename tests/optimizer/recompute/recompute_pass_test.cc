// What is computed again, and that it pays.
#include "optimizer/recompute/recompute_pass.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "data/hlo/hlo.h"
#include "optimizer/optimize.h"
#include "tests/optimizer/synthetic_costs.h"

namespace reprise {
namespace {

/// `v`, which `op` makes, is read before and after two dots; at the second it
/// is one of three matrices in memory.
InlinedModule across_two_dots(const std::string& op) {
  const auto module = parse_hlo(fmt::format(R"(HloModule across

sum {{
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT s = f32[] add(p, q)
}}

ENTRY step {{
  x = f32[256,256] parameter(0)
  y = f32[256,256] parameter(1)
  zero = f32[] constant(0)
  v = f32[256,256] {}(x)
  r = f32[256] reduce(v, zero), dimensions={{0}}, to_apply=sum
  b = f32[256,256] broadcast(r), dimensions={{1}}
  shifted = f32[256,256] add(y, b)
  first = f32[256,256] dot(shifted, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  second = f32[256,256] dot(first, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  product = f32[256,256] multiply(v, second)
  ROOT out = f32[256] reduce(product, zero), dimensions={{0}}, to_apply=sum
}}
)",
                                            op),
                                "across");
  EXPECT_TRUE(module.has_value()) << module.error().message;
  return *inline_calls(*module);
}

/// Sums, products and dots of any earlier matrices; the last one is returned.
InlinedModule random_matrices(uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string text = "HloModule m\n\nENTRY e {\n";
  std::vector<std::string> names{"p0", "p1"};
  for (size_t i = 0; i < names.size(); ++i)
    text += fmt::format("  p{} = f32[64,64] parameter({})\n", i, i);
  for (int op = 0; op < 40; ++op) {
    const char* const code = std::array{"add", "multiply", "dot"}[random() % 3];
    text += fmt::format(
        "  {}v{} = f32[64,64] {}({}, {}){}\n", op == 39 ? "ROOT " : "", op,
        code, names[random() % names.size()], names.back(),
        code == std::string("dot")
            ? ", lhs_contracting_dims={1}, rhs_contracting_dims={0}"
            : "");
    names.push_back(fmt::format("v{}", op));
  }
  const auto module = parse_hlo(text + "}\n", "m");
  EXPECT_TRUE(module.has_value()) << module.error().message << text;
  return *inline_calls(*module);
}

Plan optimized(const InlinedModule& module, std::vector<std::string> passes,
               const Measure& measure = nullptr) {
  OptimizeOptions options;
  options.only = std::move(passes);
  const auto result = optimize(module, identity_plan(module, 1),
                               synthetic_costs(), options, measure);
  EXPECT_TRUE(result.has_value()) << result.error().message;
  return result->plan;
}

int64_t arena_bytes(const InlinedModule& module, const Plan& plan) {
  const auto schedule = lower_schedule(module, plan);
  EXPECT_TRUE(schedule.has_value()) << schedule.error().message;
  return schedule->arena_bytes;
}

int64_t times_computed(const Plan& plan, const std::string& op) {
  return std::count_if(
      plan.fusion.begin(), plan.fusion.end(), [&](const FusionGroup& group) {
        return std::count(group.ops.begin(), group.ops.end(), op) > 0;
      });
}

TEST(Recompute, CheapValuesAreNotKeptForALateReader) {
  const InlinedModule module = across_two_dots("negate");
  const Plan kept = optimized(module, {"fusion"});
  const Plan plan = optimized(module, {"fusion", "recompute"});
  EXPECT_EQ(times_computed(kept, "v"), 1);
  EXPECT_EQ(times_computed(plan, "v"), 2);
  EXPECT_EQ(arena_bytes(module, plan),
            arena_bytes(module, kept) - 256 * 256 * 4);
  EXPECT_TRUE(validate_plan(plan, module).has_value());
}

TEST(Recompute, FunctionsRunOnce) {
  const InlinedModule module = across_two_dots("exponential");
  EXPECT_EQ(optimized(module, {"fusion", "recompute"}).fusion,
            optimized(module, {"fusion"}).fusion);
}

/// Where the kernel that computes `v` again is found to take much longer.
TEST(Recompute, WhatCostsTimeIsTakenBack) {
  const InlinedModule module = across_two_dots("negate");
  int runs = 0;
  CostModel learnt = synthetic_costs();
  const Measure measure = [&](const Plan& plan) -> Result<CostModel> {
    ++runs;
    const auto schedule = lower_schedule(module, plan);
    if (!schedule) return pass(schedule.error());
    for (const Unit& unit : schedule->units) {
      const auto has = [&](std::string_view name) {
        return std::any_of(
            unit.ops.begin(), unit.ops.end(), [&](InstructionId op) {
              return module.entry_computation().at(op).name == name;
            });
      };
      const double times = has("v") && has("product") ? 50 : 1;
      learnt.units[unit.key] = {
          .alone_ns = times * synthetic_costs().price(unit).alone_ns,
          .source = PriceSource::kMeasured};
    }
    return learnt;
  };
  const Plan plan = optimized(module, {"fusion", "recompute"}, measure);
  EXPECT_GT(runs, 1);
  EXPECT_EQ(times_computed(plan, "v"), 1);
}

/// Many values of a few bytes, each read before and after a dot.
TEST(Recompute, SmallValuesCountByTheBytesThatTheyTake) {
  std::string text = "HloModule m\n\nENTRY step {\n", sums, products;
  constexpr int kValues = 80;
  for (int i = 0; i < kValues; ++i) {
    text += fmt::format("  x{0} = f32[2] parameter({0})\n", i);
    sums += fmt::format("  v{0} = f32[2] negate(x{0})\n", i);
    sums += fmt::format("  s{} = f32[2] add(v{}, {}{})\n", i, i,
                        i == 0 ? "x" : "s", std::max(i - 1, 0));
    products += fmt::format("  {}t{} = f32[2] multiply(v{}, {})\n",
                            i == kValues - 1 ? "ROOT " : "", i, i,
                            i == 0 ? "d" : fmt::format("t{}", i - 1));
  }
  text += fmt::format("  w = f32[2,2] parameter({})\n{}", kValues, sums);
  text += fmt::format(
      "  d = f32[2] dot(s{}, w), lhs_contracting_dims={{0}}, "
      "rhs_contracting_dims={{0}}\n{}}}\n",
      kValues - 1, products);
  const auto parsed = parse_hlo(text, "m");
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
  const InlinedModule module = *inline_calls(*parsed);
  const Plan kept = optimized(module, {"fusion"}),
             plan = optimized(module, {"fusion", "recompute"});
  EXPECT_LE(arena_bytes(module, plan),
            arena_bytes(module, kept) - kValues / 2 * 64);
}

/// A recorded plan that computes values again stays as it is.
TEST(Recompute, LeavesPlansThatComputeAgainAlone) {
  const InlinedModule module = across_two_dots("negate");
  const Plan plan = optimized(module, {"fusion", "recompute"});
  OptimizeOptions options;
  options.only = {"recompute"};
  const auto again = optimize(module, plan, synthetic_costs(), options);
  ASSERT_TRUE(again.has_value()) << again.error().message;
  EXPECT_EQ(again->plan.fusion, plan.fusion);
}

TEST(Recompute, PlansOfRandomProgramsAreValidAndTakeNoMoreMemory) {
  int64_t shrunk = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const InlinedModule module = random_matrices(seed);
    const Plan plan = optimized(module, {"fusion", "recompute"});
    const Status valid = validate_plan(plan, module);
    EXPECT_TRUE(valid) << valid.error().message;
    const int64_t kept = arena_bytes(module, optimized(module, {"fusion"}));
    const int64_t bytes = arena_bytes(module, plan);
    EXPECT_LE(bytes, kept);
    shrunk += bytes < kept ? 1 : 0;
  }
  EXPECT_GT(shrunk, 20) << "tests little";
}

}  // namespace
}  // namespace reprise
