#include "data/hlo/fold_constants.h"

#include <algorithm>

#include "data/hlo/routine.h"
#include "tests/data/hlo/hlo_text.h"

namespace reprise {
namespace {

// By hand: 3 copies times a third are one, in f16 as well (3 * 0.3333); of 2 x
// 3 copies along which 4 more are left, 6 times the scalar. A sum from another
// number, of what a broadcast did not add, or by rounding bodies, stays.
TEST(FoldConstants, SumsOfCopiesAreProducts) {
  const auto inlined = inline_calls(module_of(R"(HloModule m
f { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
g { a = f16[] parameter(0)
  b = f16[] parameter(1)
  ROOT c = f16[] add(a, b) }
h { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] maximum(a, b) }
ENTRY e {
  x = f32[4,8] parameter(0)
  s = f32[] parameter(1)
  v = f16[8] parameter(2)
  zero = f32[] constant(0)
  zero_h = f16[] constant(0)
  one = f32[] constant(1)
  three = f32[] constant(3)
  threes = f32[4,1,8] broadcast(three), dimensions={}
  copies = f32[4,3,8] broadcast(x), dimensions={0,2}
  sum = f32[4,8] reduce(copies, zero), dimensions={1}, to_apply=f
  rows = f32[4,1,8] reshape(sum)
  mean = f32[4,1,8] divide(rows, threes)
  column = f32[4,1,8] reshape(x)
  repeated = f32[4,1,3,8] broadcast(column), dimensions={0,1,3}
  repeats = f32[4,3,8] reshape(repeated)
  all = f32[4,8] reduce(repeats, zero), dimensions={1}, to_apply=f
  three_h = f16[] constant(3)
  threes_h = f16[8] broadcast(three_h), dimensions={}
  copies_h = f16[3,8] broadcast(v), dimensions={1}
  sum_h = f16[8] reduce(copies_h, zero_h), dimensions={0}, to_apply=g
  mean_h = f16[8] divide(sum_h, threes_h)
  many = f32[2,4,3] broadcast(s), dimensions={}
  fours = f32[4] reduce(many, zero), dimensions={0,2}, to_apply=f
  from_one = f32[4,8] reduce(copies, one), dimensions={1}, to_apply=f
  most = f32[4,8] reduce(copies, zero), dimensions={1}, to_apply=h
  across = f32[8] reduce(copies, zero), dimensions={0,1}, to_apply=f
  ROOT t = (f32[4,1,8], f32[4,8], f16[8], f32[4], f32[4,8], f32[4,8], f32[8]) tuple(mean, all, mean_h, fours, from_one, most, across)
})"));
  ASSERT_TRUE(inlined.has_value()) << inlined.error().message;
  const Computation& entry = inlined->entry_computation();
  EXPECT_EQ(arithmetic(entry),
            "mean=multiply(mean/k13, 1)\n"
            "all/k22=multiply(column, 3)\n"
            "mean_h=multiply(v, 1)\n"
            "fours/k35=multiply(s, 6)\n");
  const auto count = [&](Opcode opcode) {
    return std::ranges::count(entry.instructions, opcode, &Instruction::opcode);
  };
  EXPECT_EQ(count(Opcode::kReduce), 3);
  EXPECT_EQ(count(Opcode::kReshape), 3);  // Before mean, x and of all.
}

// As XLA's: 0.5 * 3 through a reshape and a transpose that nothing else reads;
// what is read elsewhere, too, is made once.
TEST(FoldConstants, ConstantsMeetThroughWhatMovesElements) {
  const auto inlined = inline_calls(module_of(R"(HloModule m
ENTRY e {
  x = f32[2,3] parameter(0)
  half = f32[] constant(0.5)
  halves = f32[2,3] broadcast(half), dimensions={}
  three = f32[] constant(3)
  threes = f32[3,1,2] broadcast(three), dimensions={}
  sixes = f32[6] broadcast(three), dimensions={}
  less = f32[2,3] multiply(x, halves)
  rows = f32[2,1,3] reshape(less)
  turned = f32[3,1,2] transpose(rows), dimensions={2,1,0}
  up = f32[3,1,2] multiply(turned, threes)
  flat = f32[6] reshape(less)
  more = f32[6] multiply(flat, sixes)
  ROOT t = (f32[3,1,2], f32[6], f32[6]) tuple(up, more, flat)
})"));
  ASSERT_TRUE(inlined.has_value()) << inlined.error().message;
  EXPECT_EQ(arithmetic(inlined->entry_computation()),
            "less=multiply(x, 0.5)\n"
            "up=multiply(up/k10, 1.5)\n"
            "more=multiply(flat, 3)\n");
}

// As XLA of JAX 0.10 and 0.12 gives (its own bits): a reciprocal of what one
// broadcast alone reads, and of two quotients by that the first's; none of what
// something else reads, of the same number of elements, or where both sides are
// repeated alike.
TEST(FoldConstants, QuotientsByBroadcastsAreProductsWithReciprocals) {
  const std::string body = R"(
ENTRY e {
  x = f32[4,8] parameter(0)
  s = f32[4] parameter(1)
  t = f32[4] parameter(2)
  u = f32[8] parameter(3)
  n = f32[] parameter(4)
  m = f32[] parameter(5)
  o = f32[1] parameter(6)
  ss = f32[4,8] broadcast(s), dimensions={0}
  first = f32[4,8] divide(x, ss)
  second = f32[4,8] divide(first, ss)
  tt = f32[4,8] broadcast(t), dimensions={0}
  twice = f32[4,8] divide(x, tt)
  root = f32[8] rsqrt(u)
  roots = f32[4,8] broadcast(root), dimensions={1}
  column = f32[4] negate(t)
  columns = f32[4,8] broadcast(column), dimensions={0}
  across = f32[4,8] divide(columns, roots)
  alike = f32[4,8] divide(columns, tt)
  nn = f32[4,8] broadcast(n), dimensions={}
  scaled = f32[4,8] divide(x, nn)
  mm = f32[4] broadcast(m), dimensions={}
  repeated = f32[4] divide(mm, column)
  scalar = f32[4] divide(t, mm)
  oo = f32[1] broadcast(o), dimensions={0}
  single = f32[1] divide(o, oo)
  ROOT r = (f32[4,8], f32[4,8], f32[4,8], f32[4,8], f32[4,8], f32[4], f32[4], f32[1]) tuple(second, twice, across, alike, scaled, repeated, scalar, single)
})";
  const auto plain = inline_calls(module_of("HloModule m\n" + body));
  ASSERT_TRUE(plain.has_value()) << plain.error().message;
  EXPECT_EQ(arithmetic(plain->entry_computation()).find("divide(1, "),
            std::string::npos);
  const auto inlined = inline_calls(module_of(
      "HloModule m, frontend_attributes={reprise_quotients=\"reciprocals\"}" +
      body));
  ASSERT_TRUE(inlined.has_value()) << inlined.error().message;
  EXPECT_EQ(arithmetic(inlined->entry_computation()),
            "first/k10=divide(1, s)\n"
            "first=multiply(x, first/k10)\n"
            "second=divide(first, s)\n"
            "twice=divide(x, t)\n"
            "column=negate(t)\n"
            "across/k20=sqrt(u)\n"
            "across=multiply(column, across/k20)\n"
            "alike=divide(column, t)\n"
            "scaled/k26=divide(1, n)\n"
            "scaled=multiply(x, scaled/k26)\n"
            "repeated=divide(m, column)\n"
            "scalar/k32=divide(1, m)\n"
            "scalar=multiply(t, scalar/k32)\n"
            "single=divide(o, o)\n");
}

// What a header says of XLA's arithmetic holds in loops and branches, too.
TEST(FoldConstants, BodiesComputeAsTheHeaderSays) {
  const auto inlined = inline_calls(module_of(
      R"(HloModule m, frontend_attributes={reprise_constants="separate",reprise_quotients="reciprocals"}
body { t = (f32[2,3], f32[2]) parameter(0)
  x = f32[2,3] get-tuple-element(t), index=0
  s = f32[2] get-tuple-element(t), index=1
  one = f32[] constant(1)
  ones = f32[2] broadcast(one), dimensions={}
  small = f32[] constant(1e-6)
  smalls = f32[2] broadcast(small), dimensions={}
  rest = f32[2] subtract(ones, s)
  kept = f32[2] add(rest, smalls)
  half = f32[2] sqrt(kept)
  rows = f32[2,3] broadcast(half), dimensions={0}
  share = f32[2,3] divide(x, rows)
  ROOT r = (f32[2,3], f32[2]) tuple(share, kept) }
ENTRY e {
  x = f32[2,3] parameter(0)
  s = f32[2] parameter(1)
  t = (f32[2,3], f32[2]) tuple(x, s)
  ROOT w = (f32[2,3], f32[2]) call(t), to_apply=body
})"));
  ASSERT_TRUE(inlined.has_value()) << inlined.error().message;
  const auto body =
      extract_computation(*inlined, ComputationId{0}, CalleeForm::kProgram);
  ASSERT_TRUE(body.has_value()) << body.error().message;
  EXPECT_EQ(arithmetic(body->entry_computation()),
            "rest=subtract(1, t/1)\n"
            "kept=add(rest, 1e-06)\n"
            "share/k12=rsqrt(kept)\n"
            "share=multiply(t/0, share/k12)\n");
}

}  // namespace
}  // namespace reprise
