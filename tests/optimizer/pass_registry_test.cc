// What the search asks of a pass that it does not know: one registered from
// outside runs, wins where it is better and is ignored where it is not.
#include <gtest/gtest.h>

#include <algorithm>

#include "data/hlo/hlo.h"
#include "optimizer/optimize.h"
#include "optimizer/search/plan_search.h"
#include "tests/optimizer/synthetic_costs.h"

namespace reprise {
namespace {

/// Two gradients, each of 4 KB: `a` is reduced first.
constexpr char kProgram[] = R"(HloModule two

sum {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT s = f32[] add(p, q)
}

ENTRY step {
  x = f32[1024] parameter(0)
  y = f32[1024] parameter(1)
  a = f32[1024] negate(x)
  first = f32[1024] all-reduce(a), replica_groups={{0,1}}, to_apply=sum
  b = f32[1024] exponential(y)
  second = f32[1024] all-reduce(b), replica_groups={{0,1}}, to_apply=sum
  u = f32[1024] multiply(first, x)
  v = f32[1024] multiply(second, y)
  ROOT out = (f32[1024], f32[1024]) tuple(u, v)
}
)";

/// Puts all gradients into one bucket of `chunks`, once.
class OneBucketTurn : public Turn {
 public:
  OneBucketTurn(PlanSearch& search, int64_t chunks)
      : Turn(search), chunks_(chunks) {}
  Result<bool> propose() override {
    return search_.pricer().ops().slots.size() == 2 && !proposed_;
  }
  void apply(PlanChoice* plan) const override {
    plan->buckets = {{.slots = {0, 1}, .chunks = chunks_}};
  }
  Result<PricedPlanPtr> price(PlanChoice plan) override {
    proposed_ = true;
    return search_.price_open(std::move(plan), search_.order_rule);
  }
  std::string explain() const override { return "one bucket"; }

 private:
  int64_t chunks_;
  bool proposed_ = false;
};

template <int64_t chunks>
class OneBucketPass : public Pass {
 public:
  using Pass::Pass;
  std::unique_ptr<Turn> turn(int index) override {
    if (index > 0) return nullptr;
    return std::make_unique<OneBucketTurn>(search_, chunks);
  }
};

template <int64_t chunks>
PassEntry one_bucket_pass() {
  return {.name = "one-bucket",
          .summary = "all gradients as one",
          .edits_units = true,
          .make = make_pass<OneBucketPass<chunks>>};
}

class PassRegistry : public testing::Test {
 protected:
  void SetUp() override {
    Result<Module> parsed = parse_hlo(kProgram);
    ASSERT_TRUE(parsed) << parsed.error().message;
    module_ = *inline_calls(*parsed);
  }
  Result<OptimizeResult> search(std::vector<std::string> only,
                                std::optional<PassEntry> more = {}) {
    std::vector<PassEntry> passes = registered_passes();
    if (more) passes.push_back(*more);
    OptimizeOptions options;
    options.only = std::move(only);
    return optimize(module_, identity_plan(module_, 2), synthetic_costs(),
                    options, {}, passes);
  }
  InlinedModule module_;
};

TEST_F(PassRegistry, APassFromOutsideEditsThePlan) {
  const auto result = search({"one-bucket"}, one_bucket_pass<1>());
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_TRUE(result->plan.fusion.empty());
  ASSERT_EQ(result->plan.buckets.size(), 1U);
  EXPECT_EQ(result->plan.buckets[0].unit, "b0");
  EXPECT_EQ(result->plan.buckets[0].collectives,
            (std::vector<std::string>{"first", "second"}));
  EXPECT_TRUE(validate_plan(result->plan, module_));
  EXPECT_TRUE(
      std::any_of(result->log.begin(), result->log.end(),
                  [](auto& line) { return line.starts_with("one bucket: "); }));
}

/// 8 KB in 64 chunks cost 64 latencies: the plan that was recorded stays.
TEST_F(PassRegistry, AWorseEditIsNotTaken) {
  const auto result = search({"one-bucket"}, one_bucket_pass<64>());
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_TRUE(result->plan.buckets.empty());
}

TEST_F(PassRegistry, RefusesAPassThatNobodyRegistered) {
  const auto result = search({"one-bucket"});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message, "the optimizer has no pass 'one-bucket'");
}

TEST_F(PassRegistry, NamesEveryPassOnceWithASummary) {
  std::vector<std::string_view> names;
  for (const PassEntry& pass : registered_passes()) {
    names.push_back(pass.name);
    EXPECT_FALSE(pass.summary.empty()) << pass.name;
  }
  ASSERT_GE(names.size(), 3U);
  EXPECT_EQ(names[0], "fusion");
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
}

/// A turn's explanation and figures are log lines, in the order of turns.
TEST_F(PassRegistry, TakesTurnsInTheOrderOfTheRegistry) {
  const auto result = search({});
  ASSERT_TRUE(result) << result.error().message;
  std::vector<std::string> stages;
  for (const std::string& line : result->log) {
    for (const char* stage : {"fusion: ", "buckets by dynamic program: ",
                              "buckets by local search: ", "order: "}) {
      if (line.starts_with(stage)) stages.emplace_back(stage);
    }
  }
  ASSERT_GE(stages.size(), 4U);
  stages.resize(4);
  EXPECT_EQ(stages, (std::vector<std::string>{
                        "fusion: ", "buckets by dynamic program: ",
                        "buckets by local search: ", "order: "}));
}

}  // namespace
}  // namespace reprise
