// Searches over programs whose collectives join different ranks, or are no
// all-reduces: what may share a bucket does, nothing else.
#include <gtest/gtest.h>

#include <algorithm>

#include "data/hlo/collective_ranks.h"
#include "data/hlo/hlo.h"
#include "optimizer/optimize.h"
#include "tests/optimizer/synthetic_costs.h"

namespace reprise {
namespace {

/// Four gradients along the rows of a square of ranks, four along its columns,
/// in turn; an exchange of experts and a shift before them.
std::string program() {
  std::string body, results, types;
  for (int i = 0; i < 8; ++i) {
    body += fmt::format(
        "  g{0} = f32[1024] {1}(back)\n"
        "  r{0} = f32[1024] all-reduce(g{0}), replica_groups={2}, "
        "to_apply=sum\n"
        "  u{0} = f32[1024] multiply(r{0}, x)\n",
        i, i % 2 == 0 ? "negate" : "exponential",
        i % 2 == 0 ? "{{0,1},{2,3}}" : "{{0,2},{1,3}}");
    results += fmt::format("{}u{}", i > 0 ? ", " : "", i);
    types += fmt::format("{}f32[1024]", i > 0 ? ", " : "");
  }
  return fmt::format(R"(HloModule groups
sum {{
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT s = f32[] add(p, q)
}}
ENTRY step {{
  x = f32[1024] parameter(0)
  sent = f32[1024] all-to-all(x), replica_groups={{{{0,1,2,3}}}}, dimensions={{0}}
  done = f32[1024] tanh(sent)
  back = f32[1024] collective-permute(done), source_target_pairs={{{{0,1}},{{1,0}}}}
{}  ROOT out = ({}) tuple({})
}}
)",
                     body, types, results);
}

TEST(CollectiveGroups, BucketsJoinTheSameRanksOnly) {
  const Result<Module> parsed = parse_hlo(program());
  ASSERT_TRUE(parsed) << parsed.error().message;
  const Result<InlinedModule> module = inline_calls(*parsed);
  ASSERT_TRUE(module) << module.error().message;
  const auto result = optimize(*module, identity_plan(*module, 4),
                               synthetic_costs(), OptimizeOptions{}, {});
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_TRUE(validate_plan(result->plan, *module));
  ASSERT_FALSE(result->plan.buckets.empty());
  const Computation& entry = module->entry_computation();
  const auto groups_of = [&](const std::string& name) {
    const auto found =
        std::find_if(entry.instructions.begin(), entry.instructions.end(),
                     [&](const Instruction& one) { return one.name == name; });
    EXPECT_EQ(found->opcode, Opcode::kAllReduce) << name;
    return collective_ranks(*module, *found, 4)->groups;
  };
  for (const Bucket& bucket : result->plan.buckets) {
    for (const std::string& name : bucket.collectives)
      EXPECT_EQ(groups_of(name), groups_of(bucket.collectives[0])) << name;
  }
}

}  // namespace
}  // namespace reprise
