#include "data/hlo/fold_constants.h"

#include <algorithm>

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

}  // namespace
}  // namespace reprise
