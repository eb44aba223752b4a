// Which ops after a dot a library call takes in, and how refusals are worded.
#include "data/plan/dot_epilogue.h"

#include <gtest/gtest.h>

#include "data/hlo/hlo.h"
#include "data/plan/plan.h"
#include "data/plan/unit_graph.h"
#include "tests/testing/parse_inlined.h"

namespace reprise {
namespace {

class DotEpilogueTest : public ::testing::Test {
 protected:
  /// The body of an entry computation over x f32[6,8], w f32[8,4], r f32[6,4],
  /// b f32[4], whose dot is `d` f32[6,4].
  void load(const std::string& body) {
    const std::string text =
        "HloModule m\nENTRY main {\n"
        "  x = f32[6,8] parameter(0)\n"
        "  w = f32[8,4] parameter(1)\n"
        "  r = f32[6,4] parameter(2)\n"
        "  b = f32[4] parameter(3)\n"
        "  zero = f32[] constant(0)\n"
        "  zeros = f32[6,4] broadcast(zero), dimensions={}\n"
        "  half = f32[] constant(0.5)\n"
        "  halves = f32[6,4] broadcast(half), dimensions={}\n"
        "  bs = f32[6,4] broadcast(b), dimensions={1}\n"
        "  d = f32[6,4] dot(x, w), lhs_contracting_dims={1}, "
        "rhs_contracting_dims={0}\n" +
        body + "}\n";
    Result<InlinedModule> parsed = parse_inlined(text);
    ASSERT_TRUE(parsed) << parsed.error().message;
    module_ = *std::move(parsed);
    Result<OpGraph> graph = build_op_graph(module_);
    ASSERT_TRUE(graph) << graph.error().message;
    graph_ = *std::move(graph);
  }

  /// The unit of the group "f0" of the ops, or the reason there is none.
  Result<PlannedUnit> unit(const std::vector<std::string>& ops) {
    Plan plan = identity_plan(module_, 1);
    plan.fusion = {{.unit = "f0", .ops = ops}};
    Result<UnitGraph> units = plan_units(graph_, plan);
    if (!units) return pass(units.error());
    for (const PlannedUnit& planned : units->units) {
      if (planned.name == "f0") return planned;
    }
    return fail(ErrorKind::kInvalid, "no unit f0");
  }

  /// What the group does after its dot: "scale 0.5+bias=b -> add", or why not.
  std::string epilogue(const std::vector<std::string>& ops) {
    const Result<PlannedUnit> planned = unit(ops);
    if (!planned) return planned.error().message;
    EXPECT_EQ(planned->role, OpRole::kDot);
    const DotEpilogue& found = planned->epilogue;
    EXPECT_EQ(planned->outputs, std::vector<InstructionId>{found.result});
    std::string text =
        epilogue_text(found.alpha, found.bias != kNoInstruction,
                      found.accumulate != kNoInstruction, found.activation);
    for (const InstructionId value : {found.bias, found.accumulate}) {
      if (value != kNoInstruction) text += " " + graph_.at(value).name;
    }
    return text + " -> " + graph_.at(found.result).name;
  }

  InlinedModule module_;
  OpGraph graph_;
};

TEST_F(DotEpilogueTest, OfADotAloneIsPlain) {
  load("ROOT out = f32[6,4] negate(d)\n");
  EXPECT_EQ(epilogue({"d"}), " -> d");
}

TEST_F(DotEpilogueTest, TakesScaleBiasAccumulateAndReluInTheirOrder) {
  load(R"(  s = f32[6,4] multiply(halves, d)
  p = f32[6,4] add(s, bs)
  q = f32[6,4] add(r, p)
  a = f32[6,4] maximum(q, zeros)
  ROOT out = f32[6,4] negate(a)
)");
  // The scale is part of the sum that alone reads it.
  EXPECT_EQ(epilogue({"p", "d"}), "scale 0.5+bias b -> p");
  EXPECT_EQ(epilogue({"d", "p", "q"}), "scale 0.5+bias+accumulate b r -> q");
  EXPECT_EQ(epilogue({"d", "p", "q", "a"}),
            "scale 0.5+bias+accumulate+relu b r -> a");
  // Views may stand in the group and change nothing.
  EXPECT_EQ(epilogue({"d", "bs", "p"}), "scale 0.5+bias b -> p");
  load("ROOT s = f32[6,4] multiply(halves, d)\n");
  EXPECT_EQ(epilogue({"d", "s"}), "scale 0.5 -> s");
}

TEST_F(DotEpilogueTest, RoundsAScaleWithTheSumThatReadsItAlone) {
  load(R"(  s = f32[6,4] multiply(d, halves)
  ROOT p = f32[6,4] add(r, s)
)");
  EXPECT_EQ(epilogue({"d", "p"}), "scale 0.5+accumulate r -> p");
  EXPECT_TRUE(unit({"d", "p"})->epilogue.multiply_add);
  load("ROOT s = f32[6,4] add(d, bs)\n");
  EXPECT_FALSE(unit({"d", "s"})->epilogue.multiply_add);
  // A scale by an array, and a product of two others plus the dot, are none.
  load(R"(  s = f32[6,4] multiply(d, r)
  ROOT p = f32[6,4] add(s, bs)
)");
  EXPECT_NE(epilogue({"d", "p"}).find("is no epilogue"), std::string::npos);
  load(R"(  s = f32[6,4] multiply(halves, r)
  ROOT p = f32[6,4] add(s, d)
)");
  EXPECT_NE(epilogue({"d", "p"}).find("is no epilogue"), std::string::npos);
}

TEST_F(DotEpilogueTest, RefusesAnotherOrder) {
  load(R"(  q = f32[6,4] add(d, r)
  p = f32[6,4] add(q, bs)
  ROOT out = f32[6,4] multiply(p, halves)
)");
  EXPECT_EQ(epilogue({"d", "q"}), "accumulate r -> q");
  EXPECT_EQ(epilogue({"d", "q", "p"}),
            "group 'f0': op 'p' is no epilogue of 'd' that a library runs");
}

TEST_F(DotEpilogueTest, RefusesWhatNoLibraryRunsByName) {
  load(R"(  exponential.7 = f32[6,4] exponential(d)
  ROOT out = f32[6,4] add(exponential.7, r)
)");
  EXPECT_EQ(
      epilogue({"d", "exponential.7"}),
      "group 'f0': op 'exponential.7' is no epilogue of 'd' that a library "
      "runs");
}

TEST_F(DotEpilogueTest, RefusesMaximaThatAreNoRelu) {
  // With 0 first, -0 would stay; with 0.5 the library has no name for it.
  load("ROOT out = f32[6,4] maximum(zeros, d)\n");
  EXPECT_NE(epilogue({"d", "out"}).find("is no epilogue"), std::string::npos);
  load("ROOT out = f32[6,4] maximum(d, halves)\n");
  EXPECT_NE(epilogue({"d", "out"}).find("is no epilogue"), std::string::npos);
  load("ROOT out = f32[6,4] maximum(d, zeros)\n");
  EXPECT_EQ(epilogue({"d", "out"}), "relu -> out");
}

TEST_F(DotEpilogueTest, RefusesAProductThatIsReadElsewhere) {
  load(R"(  p = f32[6,4] add(d, bs)
  ROOT out = f32[6,4] multiply(d, p)
)");
  EXPECT_EQ(epilogue({"d", "p"}),
            "group 'f0': 'd' is read by 'out', too, but the library call of "
            "'d' writes its last result only");
  // Inside the group, too, one op takes it.
  EXPECT_EQ(epilogue({"d", "p", "out"}),
            "group 'f0': op 'out' is no epilogue of 'd' that a library runs");
  load(R"(  p = f32[6,4] add(d, bs)
  ROOT out = (f32[6,4], f32[6,4]) tuple(d, p)
)");
  EXPECT_EQ(epilogue({"d", "p"}),
            "group 'f0': 'd' is read by the program's caller, too, but the "
            "library call of 'd' writes its last result only");
  load("ROOT out = f32[6,4] add(d, d)\n");
  EXPECT_NE(epilogue({"d", "out"}).find("is no epilogue"), std::string::npos);
}

TEST_F(DotEpilogueTest, RefusesAnEpilogueThatAnotherGroupRecomputes) {
  load(R"(  p = f32[6,4] add(d, bs)
  ROOT out = f32[6,4] negate(p)
)");
  Plan plan = identity_plan(module_, 1);
  plan.fusion = {{.unit = "f0", .ops = {"d", "p"}},
                 {.unit = "f1", .ops = {"p", "out"}}};
  const Result<UnitGraph> units = plan_units(graph_, plan);
  ASSERT_FALSE(units);
  EXPECT_EQ(units.error().message,
            "group 'f0': another unit reads 'd', but a library call writes its "
            "last result only");
}

TEST_F(DotEpilogueTest, RefusesASecondDotAndASecondUnit) {
  load(
      R"(  e = f32[6,4] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT out = f32[6,4] add(d, e)
)");
  EXPECT_EQ(epilogue({"d", "e", "out"}),
            "group 'f0': 'e' is a second dot beside 'd': a library call has "
            "one");
  // A sum of products: either dot adds the other's result.
  EXPECT_EQ(epilogue({"d", "out"}), "accumulate e -> out");
  EXPECT_EQ(epilogue({"e", "out"}), "accumulate d -> out");
  Plan plan = identity_plan(module_, 1);
  plan.fusion = {{.unit = "f0", .ops = {"d", "out"}},
                 {.unit = "f1", .ops = {"d"}}};
  const Result<UnitGraph> units = plan_units(graph_, plan);
  ASSERT_FALSE(units);
  EXPECT_EQ(units.error().message,
            "group 'f1': 'd' is a dot, which runs in one unit only");
}

TEST_F(DotEpilogueTest, LooksThroughViewsOfABias) {
  load(R"(  b1 = f32[1,4] reshape(b)
  b2 = f32[1,4] broadcast(b1), dimensions={0,1}
  b3 = f32[4] reshape(b2)
  b4 = f32[2,3,4] broadcast(b3), dimensions={2}
  v = f32[2,3,4] reshape(d)
  p = f32[2,3,4] add(v, b4)
  ROOT out = f32[2,3,4] negate(p)
)");
  EXPECT_EQ(epilogue({"d", "p"}), "bias b -> p");
}

TEST_F(DotEpilogueTest, TakesABiasOfSeveralDimensions) {
  // Columns are both dimensions of rhs that are not contracted.
  load(R"(  y = f32[8,2,3] parameter(4)
  c = f32[2,3] parameter(5)
  cs = f32[6,2,3] broadcast(c), dimensions={1,2}
  ct = f32[3,2] transpose(c), dimensions={1,0}
  e = f32[6,2,3] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  p = f32[6,2,3] add(e, cs)
  ROOT out = (f32[6,2,3], f32[6,4], f32[3,2]) tuple(p, d, ct)
)");
  EXPECT_EQ(epilogue({"e", "p"}), "bias c -> p");
}

TEST_F(DotEpilogueTest, RefusesABiasAlongTheRows) {
  load(R"(  c = f32[6] parameter(4)
  cs = f32[6,4] broadcast(c), dimensions={0}
  ROOT out = f32[6,4] add(d, cs)
)");
  EXPECT_EQ(epilogue({"d", "out"}),
            "group 'f0': op 'out' is no epilogue of 'd' that a library runs");
}

TEST_F(DotEpilogueTest, FollowsADotThatIsWrittenTransposed) {
  // The library writes dᵀ, f32[4,6]: its columns are d's rows, along which a
  // vector of 6 runs and one of 4 does not.
  const std::string rest = R"(  t = f32[4,6] transpose(d), dimensions={1,0}
  c = f32[6] parameter(4)
  cs = f32[4,6] broadcast(c), dimensions={1}
  bt = f32[4,6] broadcast(b), dimensions={0}
)";
  load(rest + "ROOT out = f32[4,6] add(t, cs)\n");
  EXPECT_EQ(epilogue({"d", "t", "out"}), "bias c -> out");
  load(rest + "ROOT out = f32[4,6] add(t, bt)\n");
  EXPECT_NE(epilogue({"d", "out"}).find("is no epilogue"), std::string::npos);
}

TEST_F(DotEpilogueTest, RefusesAVectorThatIsNoColumnOfABatch) {
  // Batched: a bias of the columns of every batch is one, of the batches not.
  const std::string rest = R"(  y = f32[2,6,8] parameter(4)
  z = f32[2,8,4] parameter(5)
  c = f32[2] parameter(6)
  cs = f32[2,6,4] broadcast(c), dimensions={0}
  bt = f32[2,6,4] broadcast(b), dimensions={2}
  e = f32[2,6,4] dot(y, z), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}
)";
  load(rest + "ROOT out = f32[2,6,4] add(e, bt)\n");
  EXPECT_EQ(epilogue({"e", "out"}), "bias b -> out");
  load(rest + "ROOT out = f32[2,6,4] add(e, cs)\n");
  EXPECT_NE(epilogue({"e", "out"}).find("is no epilogue"), std::string::npos);
}

TEST_F(DotEpilogueTest, RefusesOpsThatLeaveAndComeBack) {
  load(R"(  n = f32[6,4] negate(d)
  ROOT out = f32[6,4] add(d, n)
)");
  EXPECT_EQ(epilogue({"d", "out"}),
            "group 'f0': 'd' is read by 'n', too, but the library call of 'd' "
            "writes its last result only");
}

}  // namespace
}  // namespace reprise
