#include <gtest/gtest.h>

#include <algorithm>

#include "data/hlo/called_rows.h"
#include "data/hlo/hlo.h"
#include "data/plan/op_graph.h"
#include "data/plan/plan.h"
#include "data/plan/unit_graph.h"
#include "tests/testing/parse_inlined.h"

namespace reprise {
namespace {

// a -> b -> c, and a -> m1 -> ar1 -> c; ar2 reads what depends on ar1; ar3 is
// of another type.
constexpr const char* kProgram =
    R"(HloModule m, input_output_alias={ {0}: (0, {}, may-alias) }
add_f32 {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT s = f32[] add(p, q)
}
add_s32 {
  p = s32[] parameter(0)
  q = s32[] parameter(1)
  ROOT s = s32[] add(p, q)
}
max_f32 {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT s = f32[] maximum(p, q)
}
ENTRY main {
  x = f32[32] parameter(0)
  w = f32[32,32] parameter(1)
  n = s32[32] parameter(2)
  a = f32[32] negate(x)
  b = f32[32] sqrt(a)
  m1 = f32[32] exponential(a)
  ar1 = f32[32] all-reduce(m1), replica_groups={{0,1}}, to_apply=add_f32
  c = f32[32] add(b, ar1)
  d = f32[32] dot(c, w), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  ar2 = f32[32] all-reduce(d), replica_groups={{0,1}}, to_apply=add_f32
  m3 = s32[32] multiply(n, n)
  ar3 = s32[32] all-reduce(m3), replica_groups={{0,1}}, to_apply=add_s32
  m4 = f32[32] cosine(x)
  ar4 = f32[32] all-reduce(m4), replica_groups={{0},{1}}, to_apply=add_f32
  m5 = f32[32] sine(x)
  ar5 = f32[32] all-reduce(m5), replica_groups={{0,1}}, to_apply=max_f32
  m6 = f32[32] tanh(x)
  ar6 = f32[32] all-reduce(m6), replica_groups={{0,1}}, to_apply=add_f32
  e = f32[32] subtract(m6, m5)
  g = f32[32] multiply(e, m4)
  dead = f32[32] abs(x)
  ROOT out = (f32[32], s32[32], f32[32], f32[32], f32[32], f32[32]) tuple(ar2, ar3, ar4, ar5, ar6, g)
}
)";

class Validate : public ::testing::Test {
 protected:
  void SetUp() override {
    Result<InlinedModule> parsed = parse_inlined(kProgram);
    ASSERT_TRUE(parsed) << parsed.error().message;
    module_ = *std::move(parsed);
    plan_ = identity_plan(module_, 2);
  }
  std::string reason() const {
    const Status status = validate_plan(plan_, module_);
    if (status) return "valid";
    EXPECT_EQ(status.error().kind, ErrorKind::kInvalid);
    return status.error().message;
  }
  std::vector<std::string> text_order() const {
    const Result<OpGraph> graph = build_op_graph(module_);
    const Result<UnitGraph> units = plan_units(*graph, plan_);
    std::vector<std::string> names;
    for (uint32_t u : default_order(*units, {}))
      names.push_back(units->units[u].name);
    return names;
  }
  InlinedModule module_;
  Plan plan_;
};

TEST_F(Validate, AcceptsTheIdentity) { EXPECT_EQ(reason(), "valid"); }

TEST_F(Validate, KeepsTextOrderWithCollectivesWhenReady) {
  EXPECT_EQ(text_order(),
            (std::vector<std::string>{"a", "b", "m1", "ar1", "c", "d", "ar2",
                                      "m3", "ar3", "m4", "ar4", "m5", "ar5",
                                      "m6", "ar6", "e", "g"}));
}

TEST_F(Validate, AcceptsGroupsBucketsChunksAndOrder) {
  plan_.fusion = {{.unit = "f0", .ops = {"b", "a"}},
                  {.unit = "f1", .ops = {"m6", "m5", "e"}}};
  plan_.buckets = {{.unit = "b0", .collectives = {"ar1", "ar6"}, .chunks = 2}};
  EXPECT_EQ(reason(), "valid");
  plan_.order = {"m3",  "f1",  "f0", "m1",  "b0#1", "b0#0", "c",       "d",
                 "ar2", "ar3", "m4", "ar4", "ar5",  "g",    "copy:ar5"};
  EXPECT_EQ(reason(), "valid");
}

TEST_F(Validate, AllowsAnOpInSeveralGroups) {
  plan_.fusion = {{.unit = "f0", .ops = {"a", "b"}},
                  {.unit = "f1", .ops = {"a", "m1"}}};
  EXPECT_EQ(reason(), "valid");
}

TEST_F(Validate, RefusesAPlanForAnotherProgram) {
  plan_.program_fingerprint = "sha256:0";
  EXPECT_NE(reason().find("another program"), std::string::npos);
}

TEST_F(Validate, RefusesAnotherRankCount) {
  plan_.ranks = 1;
  EXPECT_EQ(reason(),
            "ar1: its replica groups name rank 1, but the plan is for 1 ranks");
  plan_.ranks = 4;
  EXPECT_EQ(reason(),
            "ar1: its replica groups hold 2 ranks, but the plan is for 4");
}

TEST_F(Validate, RefusesUnknownNames) {
  plan_.fusion = {{.unit = "f0", .ops = {"a", "zz"}}};
  EXPECT_EQ(reason(), "group 'f0': the program has no op 'zz'");
  plan_.fusion.clear();
  plan_.buckets = {{.unit = "b0", .collectives = {"a"}}};
  EXPECT_EQ(reason(), "bucket 'b0': the program has no collective 'a'");
  plan_.buckets = {{.unit = "b0", .collectives = {"ar1:1"}}};
  EXPECT_EQ(reason(), "bucket 'b0': 'ar1:1' names operand '1' of 1");
}

TEST_F(Validate, RefusesAGroupThatIsNotConvex) {
  plan_.fusion = {{.unit = "f0", .ops = {"m5", "g"}}};
  EXPECT_EQ(reason(),
            "group 'f0' is not convex: m5 -> e -> g leaves it and comes back");
}

TEST_F(Validate, RefusesAGroupThatCrossesACollective) {
  plan_.fusion = {{.unit = "f0", .ops = {"a", "b", "m1", "c"}}};
  EXPECT_EQ(reason(), "group 'f0' crosses collective 'ar1': m1 -> ar1 -> c");
}

TEST_F(Validate, RefusesGroupsThatWaitForEachOther) {
  // Each alone is convex; but e of f0 reads m5 of f1, whose c reads (through b)
  // a of f0.
  plan_.fusion = {{.unit = "f0", .ops = {"a", "e"}},
                  {.unit = "f1", .ops = {"m5", "c"}}};
  EXPECT_EQ(reason().find("units wait for each other in a ring: "), 0U)
      << reason();
  EXPECT_NE(reason().find("'f0'"), std::string::npos);
  EXPECT_NE(reason().find("'f1'"), std::string::npos);
}

TEST_F(Validate, RefusesDotsAndCollectivesInGroups) {
  plan_.fusion = {{.unit = "f0", .ops = {"c", "d"}}};
  EXPECT_EQ(reason(),
            "group 'f0': op 'c' is no epilogue of 'd' that a library runs");
  plan_.fusion = {{.unit = "f0", .ops = {"ar1", "c"}}};
  EXPECT_EQ(reason(),
            "group 'f0': 'ar1' is a all-reduce, which no group may hold");
}

TEST_F(Validate, RefusesGroupsWithNothingToRun) {
  plan_.fusion = {{.unit = "f0", .ops = {"dead"}}};
  EXPECT_EQ(reason(), "group 'f0' holds no op that runs");
}

TEST_F(Validate, RefusesBucketsThatMix) {
  plan_.buckets = {{.unit = "b0", .collectives = {"ar1", "ar3"}}};
  EXPECT_EQ(reason(), "bucket 'b0': it mixes types: 'ar1' and 'ar3' differ");
  plan_.buckets = {{.unit = "b0", .collectives = {"ar1", "ar4"}}};
  EXPECT_EQ(reason(),
            "bucket 'b0': it mixes replica groups: 'ar1' and 'ar4' differ");
  plan_.buckets = {{.unit = "b0", .collectives = {"ar1", "ar5"}}};
  EXPECT_EQ(reason(),
            "bucket 'b0': it mixes reductions: 'ar1' and 'ar5' differ");
}

TEST_F(Validate, RefusesABucketWhoseMemberDependsOnAnother) {
  plan_.buckets = {{.unit = "b0", .collectives = {"ar6", "ar1", "ar2"}}};
  EXPECT_EQ(reason(),
            "bucket 'b0': its member 'ar2' depends on its member 'ar1' (ar1 -> "
            "c -> d -> ar2)");
}

TEST_F(Validate, RefusesImpossibleChunks) {
  // 128 bytes are two lines of 64.
  plan_.buckets = {{.unit = "b0", .collectives = {"ar1"}, .chunks = 3}};
  EXPECT_EQ(
      reason(),
      "bucket 'b0': 128 bytes do not make 3 chunks of whole 64-byte lines");
}

TEST_F(Validate, RefusesOrdersByUnit) {
  const std::vector<std::string> good = text_order();
  plan_.order = good;
  EXPECT_EQ(reason(), "valid");
  plan_.order.pop_back();
  EXPECT_EQ(reason(), "order: unit 'g' is missing");
  plan_.order.push_back("a");
  EXPECT_EQ(reason(), "order: unit 'a' stands twice");
  plan_.order.back() = "zz";
  EXPECT_EQ(reason(), "order: the plan has no unit 'zz'");
  plan_.order = good;
  std::swap(plan_.order[4], plan_.order[5]);
  EXPECT_EQ(reason(), "order: 'd' stands before 'c', whose result it reads");
}

TEST_F(Validate, RefusesAReductionThatDoesNotCombineItsParameters) {
  std::string text = kProgram;
  const std::string sum = "ROOT s = f32[] add(p, q)";
  text.replace(text.find(sum), sum.size(), "ROOT s = f32[] add(p, p)");
  module_ = *parse_inlined(text);
  const Result<OpGraph> graph = build_op_graph(module_);
  ASSERT_TRUE(graph) << graph.error().message;
  const Result<UnitGraph> units = plan_units(*graph, plan_);
  ASSERT_FALSE(units);
  EXPECT_EQ(
      units.error().message,
      "ar1: expected a reduction by add, maximum, minimum or multiply (of "
      "preds by and, or)");
}

// Of before a product that only a sum reads was part of it.
TEST_F(Validate, KnowsThePlansOfProductsOfTheirOwn) {
  std::string text = kProgram;
  const std::string last = "g = f32[32] multiply(e, m4)";
  text.replace(text.find(last), last.size(),
               "p = f32[32] multiply(e, m4)\n  g = f32[32] add(p, m5)");
  const Result<Module> parsed = parse_hlo(text);
  ASSERT_TRUE(parsed) << parsed.error().message;
  const auto inlined = [&](Arithmetic arithmetic) {
    return inline_calls(*parsed, arithmetic);
  };
  const auto ops = [&](std::optional<Plan> plan, PlanUse use) {
    const auto module = inline_for(&plan, use, inlined);
    EXPECT_TRUE(module);
    // Whatever it is, the plan is one of it.
    EXPECT_TRUE(!plan || validate_plan(*plan, *module));
    return module->entry_computation().instructions.size();
  };
  const InlinedModule rounded = *inlined(Arithmetic::kAsWritten);
  const InlinedModule contracted = *inlined(Arithmetic::kAsXla);
  const size_t all = rounded.entry_computation().instructions.size();
  EXPECT_EQ(ops(std::nullopt, PlanUse::kGiven), all - 1);
  EXPECT_EQ(ops(identity_plan(contracted, 2), PlanUse::kRan), all - 1);
  Plan older = identity_plan(rounded, 2);
  EXPECT_EQ(ops(older, PlanUse::kRan), all);
  EXPECT_EQ(ops(older, PlanUse::kGiven), all - 1);
  older.fusion = {{.unit = "f0", .ops = {"p", "g"}}};
  EXPECT_EQ(ops(older, PlanUse::kGiven), all);
  // Of another program: as it is, for its check to refuse.
  older.program_fingerprint = "sha256:0";
  std::optional<Plan> other = older;
  EXPECT_EQ(inline_for(&other, PlanUse::kGiven, inlined)
                ->entry_computation()
                .instructions.size(),
            all - 1);
  EXPECT_EQ(other->program_fingerprint, "sha256:0");
}

// Of before sums over many rows were made by blocks of rows.
int64_t count_routines(const InlinedModule& module) {
  const auto graph = build_op_graph(module);
  return graph ? std::ranges::count(graph->role, OpRole::kRoutine) : -1;
}

TEST(InlineFor, KnowsThePlansOfSumsByColumn) {
  const Result<Module> parsed = parse_hlo(R"(
HloModule m
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
ENTRY main {
  x = f32[256,512] parameter(0)
  zero = f32[] constant(0)
  ROOT s = f32[512] reduce(x, zero), dimensions={0}, to_apply=add
})");
  ASSERT_TRUE(parsed) << parsed.error().message;
  const auto inlined = [&](Arithmetic arithmetic) {
    return inline_calls(*parsed, arithmetic);
  };
  const auto extents = [](const InlinedModule& module) {
    std::vector<int64_t> found;
    for (const Instruction& op : module.entry_computation().instructions) {
      if (op.opcode != Opcode::kReduce) continue;
      found.push_back(element_count(op.shape));
    }
    return found;
  };
  const InlinedModule before = *inlined(Arithmetic::kSumsByColumn);
  EXPECT_EQ(extents(before), (std::vector<int64_t>{512}));
  EXPECT_EQ(extents(*inlined(Arithmetic::kAsXla)),
            (std::vector<int64_t>{8 * 512, 512}));
  std::optional<Plan> plan = identity_plan(before, 1);
  const auto ran = inline_for(&plan, PlanUse::kRan, inlined);
  ASSERT_TRUE(ran);
  EXPECT_EQ(extents(*ran), extents(before));
  EXPECT_TRUE(validate_plan(*plan, *ran));
}

// As those of before constants of f16 were folded.
TEST(InlineFor, APlanThatDividesHalfIsMovedOrRunsAsItDid) {
  const Result<Module> parsed = parse_hlo(R"(
HloModule m
ENTRY main {
  x = f16[8] parameter(0)
  three = f16[] constant(3)
  threes = f16[8] broadcast(three), dimensions={}
  y = f16[8] divide(x, threes)
  ROOT z = f16[8] add(y, y)
})");
  ASSERT_TRUE(parsed) << parsed.error().message;
  const auto inlined = [&](Arithmetic arithmetic) {
    return inline_calls(*parsed, arithmetic);
  };
  const auto divides = [](const InlinedModule& module) {
    return std::ranges::any_of(
        module.entry_computation().instructions,
        [](const Instruction& op) { return op.opcode == Opcode::kDivide; });
  };
  const InlinedModule before = *inlined(Arithmetic::kHalfDivided);
  EXPECT_TRUE(divides(before));
  EXPECT_FALSE(divides(*inlined(Arithmetic::kAsXla)));
  std::optional<Plan> plan = identity_plan(before, 1);
  const auto ran = inline_for(&plan, PlanUse::kRan, inlined);
  ASSERT_TRUE(ran);
  EXPECT_TRUE(divides(*ran));
  EXPECT_TRUE(validate_plan(*plan, *ran));
}

TEST(InlineFor, APlanOfBeforeKeepsScattersApartFromSums) {
  const Result<Module> parsed = parse_hlo(R"(
HloModule m
f { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
ENTRY main {
  x = f32[8] parameter(0)
  at = s32[2,1] parameter(1)
  y = f32[2] parameter(2)
  zero = f32[] constant(0)
  zeros = f32[8] broadcast(zero), dimensions={}
  s = f32[8] scatter(zeros, at, y), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=f
  ROOT z = f32[8] add(x, s)
})");
  ASSERT_TRUE(parsed) << parsed.error().message;
  const auto inlined = [&](Arithmetic arithmetic) {
    return inline_calls(*parsed, arithmetic);
  };
  const auto ops = [](const InlinedModule& module) {
    return module.entry_computation().instructions.size();
  };
  const InlinedModule before = *inlined(Arithmetic::kScattersApart);
  EXPECT_GT(ops(before), ops(*inlined(Arithmetic::kAsXla)));
  std::optional<Plan> plan = identity_plan(before, 1);
  const auto ran = inline_for(&plan, PlanUse::kRan, inlined);
  ASSERT_TRUE(ran);
  EXPECT_EQ(ops(*ran), ops(before));
  EXPECT_TRUE(validate_plan(*plan, *ran));
}

TEST(InlineFor, APlanOfBeforeKeepsEachRowOfAScanForItself) {
  const Result<Module> parsed = parse_hlo(R"(
HloModule m
body { s = (s32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  ROOT out = (s32[]) tuple(next) }
condition { s = (s32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)
  ROOT less = pred[] compare(i, n), direction=LT }
ENTRY main {
  i = s32[] parameter(0)
  s = (s32[]) tuple(i)
  loop = (s32[]) while(s), condition=condition, body=body
  ROOT r = s32[] get-tuple-element(loop), index=0
})");
  ASSERT_TRUE(parsed) << parsed.error().message;
  const auto inlined = [&](Arithmetic arithmetic) {
    return inline_calls(*parsed, arithmetic);
  };
  const auto is_together = [](const InlinedModule& module) {
    return std::ranges::any_of(module.entry_computation().instructions,
                               has_called_rows);
  };
  EXPECT_TRUE(is_together(*inlined(Arithmetic::kAsXla)));
  const Plan before = identity_plan(*inlined(Arithmetic::kRowsApart), 1);
  std::optional<Plan> plan = before;
  EXPECT_FALSE(is_together(*inline_for(&plan, PlanUse::kRan, inlined)));
  EXPECT_TRUE(is_together(*inline_for(&plan, PlanUse::kGiven, inlined)));
}

TEST(InlineFor, APlanOfBeforeKeepsLongScansInKernels) {
  const Result<Module> parsed = parse_hlo(R"(
HloModule m
f { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
ENTRY main {
  x = f32[8,64] parameter(0)
  zero = f32[] constant(0)
  y = f32[8,64] negate(x)
  s = f32[8,64] reduce-window(y, zero), window={size=1x64 pad=0_0x63_0}, to_apply=f
  t = f32[8,64] reduce-window(y, zero), window={size=1x32 pad=0_0x31_0}, to_apply=f
  ROOT z = f32[8,64] add(s, t)
})");
  ASSERT_TRUE(parsed) << parsed.error().message;
  const auto inlined = [&](Arithmetic arithmetic) {
    return inline_calls(*parsed, arithmetic);
  };
  Plan together = identity_plan(*inlined(Arithmetic::kScansInKernels), 1);
  together.fusion = {{.unit = "all", .ops = {"y", "s", "t", "z"}}};
  std::optional<Plan> plan = together;
  const InlinedModule ran = *inline_for(&plan, PlanUse::kRan, inlined);
  EXPECT_TRUE(validate_plan(*plan, ran));
  InlinedModule now = *inlined(Arithmetic::kAsXla);
  EXPECT_EQ(count_routines(now), 1);
  now.device = LoweredFor::kGpu;  // Where the host would run it.
  EXPECT_EQ(count_routines(now), 0);
  EXPECT_EQ(count_routines(ran), 0);
}

TEST(InlineFor, APlanOfBeforeKeepsWholesThatSlicesTakeApart) {
  const Result<Module> parsed = parse_hlo(R"(
HloModule m
ENTRY main {
  x = f32[8] parameter(0)
  y = f32[4] parameter(1)
  both = f32[12] concatenate(x, y), dimensions={0}
  part = f32[4] slice(both), slice={[8:12]}
  ROOT z = f32[4] negate(part)
})");
  ASSERT_TRUE(parsed) << parsed.error().message;
  const auto inlined = [&](Arithmetic arithmetic) {
    return inline_calls(*parsed, arithmetic);
  };
  Plan together = identity_plan(*inlined(Arithmetic::kWholesMade), 1);
  together.fusion = {{.unit = "all", .ops = {"both", "part", "z"}}};
  std::optional<Plan> plan = together;
  const InlinedModule ran = *inline_for(&plan, PlanUse::kRan, inlined);
  EXPECT_TRUE(validate_plan(*plan, ran));
  EXPECT_LT(
      inlined(Arithmetic::kAsXla)->entry_computation().instructions.size(),
      ran.entry_computation().instructions.size());
}

TEST(InlineFor, APlanOfBeforeAddsCopiesUp) {
  const Result<Module> parsed = parse_hlo(R"(
HloModule m
f { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
ENTRY main {
  x = f32[8] parameter(0)
  zero = f32[] constant(0)
  copies = f32[3,8] broadcast(x), dimensions={1}
  sum = f32[8] reduce(copies, zero), dimensions={0}, to_apply=f
  ROOT z = f32[8] negate(sum)
})");
  ASSERT_TRUE(parsed) << parsed.error().message;
  const auto inlined = [&](Arithmetic arithmetic) {
    return inline_calls(*parsed, arithmetic);
  };
  const auto sums = [](const InlinedModule& module) {
    return std::ranges::any_of(
        module.entry_computation().instructions,
        [](const Instruction& op) { return op.opcode == Opcode::kReduce; });
  };
  Plan together = identity_plan(*inlined(Arithmetic::kCopiesAdded), 1);
  together.fusion = {{.unit = "all", .ops = {"copies", "sum", "z"}}};
  std::optional<Plan> plan = together;
  const InlinedModule ran = *inline_for(&plan, PlanUse::kRan, inlined);
  EXPECT_TRUE(validate_plan(*plan, ran));
  EXPECT_TRUE(sums(ran));
  EXPECT_FALSE(sums(*inlined(Arithmetic::kAsXla)));
}

TEST(InlineFor, APlanOfBeforeKeepsFunctionsOfFunctions) {
  const Result<Module> parsed = parse_hlo(R"(
HloModule m
ENTRY main {
  x = f32[8] parameter(0)
  y = f32[8] sqrt(x)
  z = f32[8] log(y)
  ROOT w = f32[8] negate(z)
})");
  ASSERT_TRUE(parsed) << parsed.error().message;
  const auto inlined = [&](Arithmetic arithmetic) {
    return inline_calls(*parsed, arithmetic);
  };
  const auto has_root = [](const InlinedModule& module) {
    return std::ranges::any_of(
        module.entry_computation().instructions,
        [](const Instruction& op) { return op.opcode == Opcode::kSqrt; });
  };
  Plan together = identity_plan(*inlined(Arithmetic::kNested), 1);
  together.fusion = {{.unit = "all", .ops = {"y", "z", "w"}}};
  std::optional<Plan> plan = together;
  const InlinedModule ran = *inline_for(&plan, PlanUse::kRan, inlined);
  EXPECT_TRUE(validate_plan(*plan, ran));
  EXPECT_TRUE(has_root(ran));
  EXPECT_FALSE(has_root(*inlined(Arithmetic::kAsXla)));
}

// As at the border of a shard_map, which copies twice.
TEST(InlineFor, APlanOfBeforeKeepsCopies) {
  const Result<Module> parsed = parse_hlo(R"(
HloModule m
ENTRY main {
  x = f32[8,2]{1,0} parameter(0)
  y = f32[8,2]{0,1} copy(x)
  z = f32[8,2]{1,0} copy(y)
  ROOT w = f32[8,2]{1,0} negate(z)
})");
  ASSERT_TRUE(parsed) << parsed.error().message;
  const auto inlined = [&](Arithmetic arithmetic) {
    return inline_calls(*parsed, arithmetic);
  };
  const auto copies = [](const InlinedModule& module) {
    return std::ranges::count_if(
        module.entry_computation().instructions,
        [](const Instruction& op) { return op.opcode == Opcode::kCopy; });
  };
  Plan together = identity_plan(*inlined(Arithmetic::kCopiesKept), 1);
  together.fusion = {{.unit = "all", .ops = {"y", "z"}}};
  std::optional<Plan> plan = together;
  const InlinedModule ran = *inline_for(&plan, PlanUse::kRan, inlined);
  EXPECT_TRUE(validate_plan(*plan, ran));
  EXPECT_EQ(copies(ran), 2);
  EXPECT_EQ(copies(*inlined(Arithmetic::kAsXla)), 0);
}

TEST(PlanNames, OfPlacesAreNoneOfThePrograms) {
  const Result<InlinedModule> module = parse_inlined(R"(HloModule named
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
ENTRY e {
  x = f32[8] parameter(0)
  b0 = f32[8] negate(x)
  b0_ = f32[8] abs(b0)
  f0 = f32[8] all-reduce(b0_), replica_groups={{0,1}}, to_apply=add
  f1 = f32[8] all-reduce(x), replica_groups={{0,1}}, to_apply=add
  ROOT out = (f32[8], f32[8]) tuple(f0, f1)
}
)");
  ASSERT_TRUE(module) << module.error().message;
  const Result<OpGraph> graph = build_op_graph(*module);
  ASSERT_TRUE(graph) << graph.error().message;
  PlanChoice choice{.ranks = 2};
  choice.fusion = {
      {.ops = {graph->by_name.at("b0"), graph->by_name.at("b0_")}}};
  choice.buckets = {{.slots = {0, 1}}};
  const Plan plan = name_plan(*graph, choice);
  EXPECT_EQ(plan.fusion[0].unit, "f0_");
  EXPECT_EQ(plan.buckets[0].unit, "b0__");
  const Status valid = validate_plan(plan, *module);
  EXPECT_TRUE(valid) << valid.error().message;
}

TEST_F(Validate, RefusesNameClashes) {
  plan_.fusion = {{.unit = "c", .ops = {"a", "b"}}};
  EXPECT_EQ(reason(), "two units are named 'c'");
  plan_.fusion[0].unit = "x#1";
  EXPECT_EQ(reason(),
            "group 'x#1': a unit's name is not empty and holds no '#' or ':'");
}

}  // namespace
}  // namespace reprise
