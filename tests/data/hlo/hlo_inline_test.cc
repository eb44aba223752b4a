// What inlining of calls makes of a program: arithmetic as XLA's, long sums in
// parts.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "data/hlo/combiner.h"
#include "data/hlo/hlo.h"
#include "data/hlo/module_summary.h"
#include "data/hlo/routine.h"
#include "tests/data/hlo/hlo_text.h"

namespace reprise {
namespace {

std::string scatters_of(const std::string& summands, const char* combine,
                        Arithmetic arithmetic = Arithmetic::kAsXla,
                        const char* type = "f32") {
  const auto inlined =
      inline_calls(module_of(fmt::format(R"(HloModule m
f {{ a = {0}[] parameter(0)
  b = {0}[] parameter(1)
  ROOT c = {0}[] {1}(a, b) }}
ENTRY e {{
  table = {0}[8,2] parameter(0)
  rows = s32[3,1] parameter(1)
  news = {0}[3,2] parameter(2)
  zero = {0}[] constant(0)
  zeros = {0}[8,2] broadcast(zero), dimensions={{}}
  more = {0}[8,2] scatter(zeros, rows, news), update_window_dims={{1}},
    inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}},
    index_vector_dim=1, to_apply=f
  sum = {0}[8,2] add({2})
  ROOT r = ({0}[8,2], {0}[8,2]) tuple(sum, table)
}})",
                                         type, combine, summands)),
                   arithmetic);
  EXPECT_TRUE(inlined.has_value()) << inlined.error().message;
  return signatures(inlined->entry_computation());
}

TEST(HloInline, ScattersIntoWhatTheirZerosAreAddedTo) {
  for (const char* summands : {"table, more", "more, table"}) {
    const std::string text = scatters_of(summands, "add");
    EXPECT_NE(text.find("scatter(table:f32 rows:s32 news:f32 )f32\ntuple(sum"),
              std::string::npos)
        << text;
    EXPECT_EQ(text.find("add("), std::string::npos) << text;
  }
  // Of another combination, and where something else reads the scatter.
  EXPECT_NE(scatters_of("table, more", "maximum").find("add("),
            std::string::npos);
  EXPECT_NE(scatters_of("more, more", "add").find("add("), std::string::npos);
}

// In bf16 1 + 2^-8 + 2^-8 is 1 where both are scattered into the 1, and
// 1 + 2^-7 where they are scattered into a zero that is then added.
TEST(HloInline, ScattersOfBfloat16AreRoundedBeforeTheyAreAdded) {
  const auto has_add = [](Arithmetic arithmetic, const char* type) {
    return scatters_of("table, more", "add", arithmetic, type).find("add(") !=
           std::string::npos;
  };
  EXPECT_TRUE(has_add(Arithmetic::kAsXla, "bf16"));
  EXPECT_FALSE(has_add(Arithmetic::kAsXla, "f16"));
  EXPECT_FALSE(has_add(Arithmetic::kNested, "bf16"));  // As plans of before.
}

// A body is inlined with its program, and again when it is taken out of it.
TEST(HloInline, WhatALoopReadsRoundedStaysRounded) {
  const auto inlined = inline_calls(module_of(R"(HloModule m
body {
  t = (bf16[4], f32[4]) parameter(0)
  x = bf16[4] get-tuple-element(t), index=0
  sum = bf16[4] add(x, x)
  root = bf16[4] divide(x, sum)
  wide = f32[4] convert(root)
  ROOT r = (bf16[4], f32[4]) tuple(x, wide)
}
cond {
  t = (bf16[4], f32[4]) parameter(0)
  ROOT more = pred[] constant(false)
}
ENTRY e {
  x = bf16[4] parameter(0)
  y = f32[4] parameter(1)
  both = (bf16[4], f32[4]) tuple(x, y)
  ROOT w = (bf16[4], f32[4]) while(both), condition=cond, body=body
})"));
  ASSERT_TRUE(inlined.has_value()) << inlined.error().message;
  const auto body =
      extract_computation(*inlined, ComputationId{0}, CalleeForm::kProgram);
  ASSERT_TRUE(body.has_value()) << body.error().message;
  const std::string text = signatures(body->entry_computation());
  EXPECT_NE(text.find("add(t/0:bf16 t/0:bf16 )bf16\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find("divide(root/f32.0:f32 root/f32.1:f32 )f32\n"),
            std::string::npos)
      << text;
}

TEST(HloInline, ConversionsReadBeforeRoundingToBf16) {
  const auto inlined = inline_calls(module_of(R"(HloModule m
ENTRY e {
  x = bf16[2,2] parameter(0)
  sum = bf16[2,2] add(x, x)
  wide = f32[2,2] convert(sum)
  dot = bf16[2,2] dot(sum, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  product = f32[2,2] convert(dot)
  moved = bf16[4] reshape(sum)
  late = f32[4] convert(moved)
  back = bf16[2,2] convert(wide)
  again = f32[2,2] convert(back)
  ROOT t = (f32[2,2], f32[2,2], f32[4], f32[2,2]) tuple(wide, product, late, again)
})"));
  ASSERT_TRUE(inlined.has_value()) << inlined.error().message;
  // Of the sum, the reshape reads what was rounded, as does the dot, of which
  // nothing does; what the text rounds itself stays so.
  EXPECT_EQ(signatures(inlined->entry_computation()),
            "parameter()bf16\n"
            "convert(x:bf16 )f32\n"
            "add(sum/f32.0:f32 sum/f32.0:f32 )f32\n"
            "convert(sum:f32 )bf16\n"
            "dot(sum/bf16:bf16 x:bf16 )f32\n"
            "reshape(sum/bf16:bf16 )bf16\n"
            "convert(moved:bf16 )f32\n"
            "convert(sum:f32 )bf16\n"
            "convert(back:bf16 )f32\n"
            "tuple(sum:f32 dot:f32 late:f32 again:f32 )\n");
}

TEST(HloInline, ContractsProductsThatOneSumReads) {
  const auto inlined = inline_calls(module_of(R"(HloModule m
ENTRY e {
  x = f32[2] parameter(0)
  y = f32[2] parameter(1)
  n = s32[2] parameter(2)
  h = bf16[2] parameter(3)
  left = f32[2] multiply(x, y)
  plus = f32[2] add(left, x)
  right = f32[2] multiply(x, y)
  less = f32[2] subtract(y, right)
  first = f32[2] multiply(x, x)
  second = f32[2] multiply(y, y)
  both = f32[2] subtract(first, second)
  squared = f32[2] multiply(y, x)
  doubled = f32[2] add(squared, squared)
  shared = f32[2] multiply(y, x)
  once = f32[2] add(shared, x)
  kept = f32[2] multiply(y, x)
  last = f32[2] add(kept, x)
  turned = f32[2] multiply(x, y)
  reversed = f32[2] reverse(turned), dimensions={0}
  moved = f32[2] add(reversed, x)
  whole = s32[2] multiply(n, n)
  counted = s32[2] add(whole, n)
  half = bf16[2] multiply(h, h)
  added = bf16[2] add(half, h)
  waiting = f32[2] multiply(x, y), control-predecessors={n}
  late = f32[2] add(waiting, x)
  after = f32[2] negate(x), control-predecessors={last}
  ROOT t = (f32[2], f32[2], f32[2], f32[2], f32[2], f32[2], f32[2], f32[2], f32[2], s32[2], bf16[2], f32[2], f32[2]) tuple(plus, less, both, doubled, once, shared, last, kept, moved, counted, added, late, after)
})"));
  ASSERT_TRUE(inlined.has_value()) << inlined.error().message;
  // Not what is read twice, by the caller too, through a move, as integers, in
  // bf16 (each op rounds to it), or after something else has run.
  EXPECT_EQ(signatures(inlined->entry_computation()),
            "parameter()f32\n"
            "parameter()f32\n"
            "parameter()s32\n"
            "parameter()bf16\n"
            "multiply-add(x:f32 y:f32 x:f32 )f32\n"
            "negated-multiply-add(x:f32 y:f32 y:f32 )f32\n"
            "multiply(y:f32 y:f32 )f32\n"
            "multiply-subtract(x:f32 x:f32 second:f32 )f32\n"
            "multiply(y:f32 x:f32 )f32\n"
            "add(squared:f32 squared:f32 )f32\n"
            "multiply(y:f32 x:f32 )f32\n"
            "add(shared:f32 x:f32 )f32\n"
            "multiply(y:f32 x:f32 )f32\n"
            "add(kept:f32 x:f32 )f32\n"
            "multiply(x:f32 y:f32 )f32\n"
            "reverse(turned:f32 )f32\n"
            "add(reversed:f32 x:f32 )f32\n"
            "multiply(n:s32 n:s32 )s32\n"
            "add(whole:s32 n:s32 )s32\n"
            "multiply(h:bf16 h:bf16 )bf16\n"
            "add(half:bf16 h:bf16 )bf16\n"
            "multiply(x:f32 y:f32 )f32\n"
            "add(waiting:f32 x:f32 )f32\n"
            "negate(x:f32 )f32\n"
            "tuple(plus:f32 less:f32 both:f32 doubled:f32 once:f32 shared:f32 "
            "last:f32 kept:f32 moved:f32 counted:s32 added:bf16 late:f32 "
            "after:f32 )\n");
  const Computation& entry = inlined->entry_computation();
  const Attribute* before =
      entry.at(InstructionId{23}).find_attribute("control-predecessors");
  ASSERT_NE(before, nullptr);
  EXPECT_EQ(std::get<std::vector<InstructionId>>(before->value),
            std::vector<InstructionId>{InstructionId{13}});
  // 2 operations an element, as of the two.
  EXPECT_EQ(instruction_cost(*inlined, entry, InstructionId{4}).flops, 4);
}

TEST(HloInline, FoldsConstantsOfSumsAndProducts) {
  const auto inlined = inline_calls(module_of(R"(HloModule m
ENTRY e {
  x = f32[2] parameter(0)
  s = f32[] parameter(1)
  n = s32[2] parameter(2)
  h = bf16[2] parameter(3)
  one = f32[] constant(1)
  ones = f32[2] broadcast(one), dimensions={}
  small = f32[] constant(1e-6)
  smalls = f32[2] broadcast(small), dimensions={}
  ten = f32[] constant(10)
  tens = f32[2] broadcast(ten), dimensions={}
  pair = f32[2] constant({1, 2})
  rest = f32[2] subtract(ones, x)
  kept = f32[2] add(smalls, rest)
  less = f32[2] subtract(kept, ones)
  up = f32[2] add(x, ones)
  further = f32[2] subtract(up, tens)
  down = f32[2] subtract(tens, up)
  tenth = f32[2] divide(x, tens)
  again = f32[2] multiply(tens, tenth)
  inverse = f32[2] divide(tens, x)
  scalar = f32[] divide(s, ten)
  mixed = f32[2] multiply(up, tens)
  paired = f32[2] divide(x, pair)
  ten_h = bf16[] constant(10)
  tens_h = bf16[2] broadcast(ten_h), dimensions={}
  half = bf16[2] divide(h, tens_h)
  ten_n = s32[] constant(10)
  tens_n = s32[2] broadcast(ten_n), dimensions={}
  whole = s32[2] divide(n, tens_n)
  ROOT t = (f32[2], f32[2], f32[2], f32[2], f32[2], f32[], f32[2], f32[2], bf16[2], s32[2]) tuple(less, further, down, again, inverse, scalar, mixed, paired, half, whole)
})"));
  ASSERT_TRUE(inlined.has_value()) << inlined.error().message;
  // By hand: 1 + 1e-6 in f32 is 1.00000095; less 1 that is 9.536743e-07. Of
  // 10 the reciprocal is 0.1, whose product with 10 is 1. What only they read,
  // rest, kept and tenth, is gone.
  EXPECT_EQ(arithmetic(inlined->entry_computation()),
            "less=subtract(9.536743e-07, x)\n"
            "up=add(x, 1)\n"
            "further=add(x, -9)\n"
            "down=subtract(10, up)\n"
            "again=multiply(x, 1)\n"
            "inverse=divide(10, x)\n"
            "scalar=multiply(s, 0.1)\n"
            "mixed=multiply(up, 10)\n"
            "paired=divide(x, 1)\n"
            "half=divide(h, 10)\n"
            "whole=divide(n, 10)\n");
}

// By hand: in f16 the reciprocal of 10 is 0.09997559, 0.3 is 0.30004883, and
// their product 0.02999756 is 1965.9 units of 2^-16: 0.02999878.
TEST(HloInline, QuotientsOfHalfBecomeProducts) {
  const std::string entry = R"(
ENTRY e {
  x = f16[2,3] parameter(0)
  s = f16[2] parameter(1)
  y = f16[2,3] parameter(2)
  ten = f16[] constant(10)
  tens = f16[2,3] broadcast(ten), dimensions={}
  third = f16[] constant(0.3)
  thirds = f16[2,3] broadcast(third), dimensions={}
  rows = f16[2,3] broadcast(s), dimensions={0}
  tenth = f16[2,3] divide(x, tens)
  less = f16[2,3] multiply(tenth, thirds)
  whole = f16[2,3] divide(x, y)
  share = f16[2,3] divide(less, rows)
  ROOT both = (f16[2,3], f16[2,3]) tuple(whole, share)
})";
  const auto inlined = inline_calls(module_of("HloModule m\n" + entry));
  ASSERT_TRUE(inlined.has_value()) << inlined.error().message;
  EXPECT_EQ(
      signatures(inlined->entry_computation()),
      "parameter()f16\nparameter()f16\nparameter()f16\nbroadcast(s:f16 )f16\n"
      "constant()f16\nbroadcast(less/k11:f16 )f16\n"
      "multiply(x:f16 less/k12:f16 )f16\ndivide(x:f16 y:f16 )f16\n"
      "divide(less:f16 rows:f16 )f16\ntuple(whole:f16 share:f16 )\n");
  const auto reciprocals = inline_calls(module_of(
      "HloModule m, frontend_attributes={reprise_quotients=\"reciprocal\"}\n" +
      entry));
  ASSERT_TRUE(reciprocals.has_value()) << reciprocals.error().message;
  EXPECT_EQ(arithmetic(reciprocals->entry_computation()),
            "less=multiply(x, 0.02999878)\n"
            "whole=divide(x, y)\n"
            "share/k17=divide(1, s)\n"
            "share=multiply(less, share/k17)\n");
}

TEST(HloInline, KeepsConstantsApartWhereTheHeaderSaysSo) {
  const auto inlined = inline_calls(module_of(
      R"(HloModule m, frontend_attributes={xla.sdy.meshes={},reprise_constants="separate"}
ENTRY e {
  x = f32[2] parameter(0)
  one = f32[] constant(1)
  ones = f32[2] broadcast(one), dimensions={}
  small = f32[] constant(1e-6)
  smalls = f32[2] broadcast(small), dimensions={}
  ten = f32[] constant(10)
  tens = f32[2] broadcast(ten), dimensions={}
  rest = f32[2] subtract(ones, x)
  kept = f32[2] add(rest, smalls)
  tenth = f32[2] divide(x, tens)
  again = f32[2] multiply(tenth, tens)
  ROOT t = (f32[2], f32[2]) tuple(kept, again)
})"));
  ASSERT_TRUE(inlined.has_value()) << inlined.error().message;
  EXPECT_EQ(arithmetic(inlined->entry_computation()),
            "rest=subtract(1, x)\n"
            "kept=add(rest, 1e-06)\n"
            "tenth=multiply(x, 0.1)\n"
            "again=multiply(tenth, 10)\n");
}

TEST(HloInline, KeepsProductsOfHalfApartWhereTheHeaderSaysSo) {
  const char* const body = R"(
ENTRY e {
  a = f16[2] parameter(0)
  b = f16[2] parameter(1)
  c = f16[2] parameter(2)
  x = f32[2] parameter(3)
  y = f32[2] parameter(4)
  z = f32[2] parameter(5)
  half = f16[2] multiply(a, b)
  more = f16[2] add(half, c)
  whole = f32[2] multiply(x, y)
  sum = f32[2] add(whole, z)
  ROOT t = (f16[2], f32[2]) tuple(more, sum)
})";
  const auto contracted = [&](const std::string& header) {
    const auto inlined = inline_calls(module_of("HloModule m" + header + body));
    EXPECT_TRUE(inlined.has_value()) << inlined.error().message;
    return arithmetic(inlined->entry_computation());
  };
  EXPECT_EQ(contracted(""),
            "more=multiply-add(a, b, c)\nsum=multiply-add(x, y, z)\n");
  EXPECT_EQ(
      contracted(", frontend_attributes={reprise_half_products=\"rounded\"}"),
      "half=multiply(a, b)\nmore=add(half, c)\n"
      "sum=multiply-add(x, y, z)\n");
}

// XLA of JAX 0.5 computes them when it compiles, each op on its own.
TEST(HloInline, KeepsProductsOfTablesApartWhereTheHeaderSaysSo) {
  const auto opcodes = [](const std::string& notes, const std::string& rows) {
    std::string text = R"(HloModule m, NOTES
ENTRY e {
  given = f32[ROWS,5] parameter(0)
  scale = f32[] constant(0.3)
  factor = f32[ROWS,5] broadcast(scale), dimensions={}
  row = f32[ROWS,5] iota(), iota_dimension=0
  product = f32[ROWS,5] multiply(row, factor)
  table = f32[ROWS,5] add(product, row)
  scaled = f32[ROWS,5] multiply(given, factor)
  sum = f32[ROWS,5] add(scaled, table)
  ROOT root = f32[ROWS,5] multiply(sum, table)
})";
    for (size_t at; (at = text.find("ROWS")) != std::string::npos;)
      text.replace(at, 4, rows);
    text.replace(text.find("NOTES"), 5, notes);
    const auto inlined = inline_calls(module_of(text));
    EXPECT_TRUE(inlined.has_value()) << inlined.error().message;
    std::string found;
    for (const Instruction& op : inlined->entry_computation().instructions) {
      if (op.name == "table" || op.name == "sum")
        found += std::string(opcode_name(op.opcode)) + " ";
    }
    return found;
  };
  const std::string rounded =
      "frontend_attributes={reprise_tables=\"rounded\"}";
  EXPECT_EQ(opcodes("entry_computation_layout={}", "10"),
            "multiply-add multiply-add ");
  EXPECT_EQ(opcodes(rounded, "10"), "add multiply-add ");
  // A loop that is not unrolled.
  EXPECT_EQ(opcodes(rounded, "11"), "multiply-add multiply-add ");
}

// A branch that takes nothing begins with a constant, which has no operand.
TEST(HloInline, BranchesOfConstantsAreReadAsTheyAre) {
  const auto inlined = inline_calls(module_of(R"(HloModule m
one { e = () parameter(0)
  ROOT c = bf16[] constant(1) }
two { e = () parameter(0)
  ROOT c = bf16[] constant(2) }
ENTRY m {
  p = pred[] parameter(0)
  e = () tuple()
  ROOT r = bf16[] conditional(p, e, e), true_computation=one, false_computation=two
})"));
  EXPECT_TRUE(inlined.has_value()) << inlined.error().message;
}

TEST(HloInline, AReductionMayEndInACopy) {
  const Module module = module_of(R"(HloModule m
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  s = f32[] add(a, b)
  ROOT c = f32[] copy(s) }
ENTRY m {
  x = f32[4] parameter(0)
  ROOT r = f32[4] all-reduce(x), replica_groups={}, to_apply=add
})");
  const Computation& entry = module.entry_computation();
  EXPECT_EQ(combining_opcode(module, entry.at(entry.root)), Opcode::kAdd);
}

TEST(HloInline, BodiesOfLoopsReadBeforeRoundingReducersDoNot) {
  const auto inlined = inline_calls(module_of(R"(HloModule m
plus {
  a = bf16[] parameter(0)
  b = bf16[] parameter(1)
  c = bf16[] add(a, b)
  w = f32[] convert(c)
  ROOT r = bf16[] convert(w)
}
body {
  s = (bf16[4], f32[4]) parameter(0)
  g = bf16[4] get-tuple-element(s), index=0
  m = bf16[4] multiply(g, g)
  w = f32[4] convert(m)
  ROOT t = (bf16[4], f32[4]) tuple(m, w)
}
condition {
  s = (bf16[4], f32[4]) parameter(0)
  ROOT p = pred[] constant(false)
}
ENTRY e {
  x = bf16[4] parameter(0)
  y = f32[4] parameter(1)
  zero = bf16[] constant(0)
  r = bf16[] reduce(x, zero), dimensions={0}, to_apply=plus
  i = (bf16[4], f32[4]) tuple(x, y)
  w = (bf16[4], f32[4]) while(i), condition=condition, body=body
  ROOT t = (bf16[], (bf16[4], f32[4])) tuple(r, w)
})"));
  ASSERT_TRUE(inlined.has_value()) << inlined.error().message;
  const auto named = [&](const std::string& name) {
    for (const Computation& computation : inlined->computations) {
      if (computation.name == name) return signatures(computation);
    }
    return std::string();
  };
  EXPECT_EQ(named("plus"),
            "parameter()bf16\nparameter()bf16\nadd(a:bf16 b:bf16 )bf16\n"
            "convert(c:bf16 )f32\nconvert(w:f32 )bf16\n");
  EXPECT_EQ(named("body"),
            "parameter()\nget-tuple-element(s: )bf16\n"
            "convert(g:bf16 )f32\nmultiply(m/f32.0:f32 m/f32.0:f32 )f32\n"
            "convert(m:f32 )bf16\ntuple(m/bf16:bf16 m:f32 )\n");
}

TEST(HloInline, InlinesNestedCallsAndDropsTheirTuples) {
  const auto inlined = inline_calls(module_of(kNested));
  ASSERT_TRUE(inlined.has_value()) << inlined.error().message;
  std::vector<std::string> names;
  for (const Instruction& instruction :
       inlined->entry_computation().instructions) {
    names.push_back(instruction.name);
  }
  EXPECT_EQ(names,
            (std::vector<std::string>{"x", "once/in/neg", "once/sum",
                                      "twice/in/neg", "twice/sum", "out"}));
  EXPECT_TRUE(verify(*inlined).has_value());
  const auto again = parse_hlo(print_hlo(*inlined));
  ASSERT_TRUE(again.has_value()) << again.error().message;
  EXPECT_EQ(print_hlo(*again), print_hlo(*inlined));
}

TEST(HloInline, PartsBitcastsThatChangeTheType) {
  const auto inlined = inline_calls(
      module_of("HloModule m\nENTRY %e {\n  %a = u16[2,3]{1,0} parameter(0)\n"
                "  ROOT %b = bf16[6]{0} bitcast(%a)\n}\n"));
  ASSERT_TRUE(inlined.has_value()) << inlined.error().message;
  const Computation& entry = inlined->entry_computation();
  ASSERT_EQ(entry.instructions.size(), 3U);
  const Instruction& converted = entry.instructions[1];
  EXPECT_EQ(converted.name, "b/1");
  EXPECT_EQ(converted.opcode, Opcode::kBitcastConvert);
  EXPECT_EQ(shape_text(converted.shape, false), "bf16[2,3]");
  EXPECT_EQ(entry.instructions[2].name, "b");
  EXPECT_EQ(entry.instructions[2].opcode, Opcode::kReshape);
  EXPECT_EQ(entry.instructions[2].operands,
            std::vector<InstructionId>{InstructionId(1)});
  EXPECT_EQ(index_of(entry.root), 2U);
}

TEST(HloInline, PartsLongSumsOverOuterDimensions) {
  const auto inlined = inline_calls(module_of(R"(HloModule m
%sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
ENTRY %e {
  x = f32[32,1,4,8,100,3] parameter(0)
  zero = f32[] constant(0)
  one = f32[] constant(1)
  long = f32[3] reduce(x, zero), dimensions={0,1,2,3,4}, to_apply=%sum
  part = f32[32,1,4,8,3] reduce(x, zero), dimensions={4}, to_apply=%sum
  short = f32[32,1,100,3] reduce(x, zero), dimensions={2,3}, to_apply=%sum
  rows = f32[32,1,4] reduce(x, zero), dimensions={3,4,5}, to_apply=%sum
  more = f32[3] reduce(x, one), dimensions={0,1,2,3,4}, to_apply=%sum
  ROOT r = (f32[3], f32[32,1,4,8,3], f32[32,1,100,3], f32[32,1,4], f32[3]) tuple(long, part, short, rows, more)
})"));
  ASSERT_TRUE(inlined) << inlined.error().message;
  std::vector<std::string> sums;
  for (const Instruction& instruction :
       inlined->entry_computation().instructions) {
    if (instruction.opcode != Opcode::kReduce) continue;
    const Instruction& from =
        inlined->entry_computation().at(instruction.operands[0]);
    std::string text = instruction.name + " " + shape_text(instruction.shape) +
                       " of " + from.name + " over";
    for (const int64_t d : integer_list(instruction, "dimensions"))
      text += " " + std::to_string(d);
    sums.push_back(text);
  }
  // 100 is more than 64 already; 4 x 8 = 32 share a step, 32 more would not.
  const std::vector<std::string> expected = {
      "long/1 f32[32,1,4,8,3] of x over 4",
      "long/2 f32[32,1,3] of long/1 over 2 3",
      "long f32[3] of long/2 over 0 1",
      "part f32[32,1,4,8,3] of x over 4",
      "short f32[32,1,100,3] of x over 2 3",
      "rows f32[32,1,4] of x over 3 4 5",
      "more f32[3] of x over 0 1 2 3 4"};
  EXPECT_EQ(sums, expected);
}

/// `name opcode shape of operand dimensions` of every op.
std::vector<std::string> steps_of(const Computation& entry) {
  std::vector<std::string> steps;
  for (const Instruction& step : entry.instructions) {
    if (step.operands.empty() || step.opcode == Opcode::kTuple) continue;
    std::string text = step.name + " " + std::string(opcode_name(step.opcode)) +
                       " " + shape_text(step.shape, false) + " of " +
                       entry.at(step.operands[0]).name;
    for (const int64_t d : integer_list(step, "dimensions"))
      text += " " + std::to_string(d);
    steps.push_back(text);
  }
  return steps;
}

TEST(HloInline, PartsSumsOfVeryManyElements) {
  const auto inlined = inline_calls(module_of(R"(HloModule m
%sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
ENTRY %e {
  x = f32[50257,768] parameter(0)
  y = f32[1048576] parameter(1)
  z = f32[300007] parameter(2)
  zero = f32[] constant(0)
  matrix = f32[] reduce(x, zero), dimensions={0,1}, to_apply=%sum
  rows = f32[50257] reduce(x, zero), dimensions={1}, to_apply=%sum
  columns = f32[768] reduce(x, zero), dimensions={0}, to_apply=%sum
  vector = f32[] reduce(y, zero), dimensions={0}, to_apply=%sum
  prime = f32[] reduce(z, zero), dimensions={0}, to_apply=%sum
  ROOT r = (f32[], f32[50257], f32[768], f32[], f32[]) tuple(matrix, rows, columns, vector, prime)
})"));
  ASSERT_TRUE(inlined) << inlined.error().message;
  const Computation& entry = inlined->entry_computation();
  // 50257 = 29 x 1733 and stays whole, as a prime does.
  const std::vector<std::string> expected = {
      "matrix/1 reduce f32[50257] of x 1",
      "matrix reduce f32[] of matrix/1 0",
      "rows reduce f32[50257] of x 1",
      "columns reduce f32[768] of x 0",
      "vector/1 reshape f32[256,4096] of y",
      "vector/2 reduce f32[256] of vector/1 1",
      "vector reduce f32[] of vector/2 0",
      "prime reduce f32[] of z 0"};
  EXPECT_EQ(steps_of(entry), expected);
}

// As XLA's CPU does: JAX 0.10.2 compiles the sum of bf16[2048,16] over its rows
// to windows of 32 rows, 64 of them, then 32 of these, then the last two.
TEST(HloInline, PartsSumsThatRoundIntoWindows) {
  const auto inlined = inline_calls(module_of(R"(HloModule m
%sum {
  a = bf16[] parameter(0)
  b = bf16[] parameter(1)
  ROOT c = bf16[] add(a, b)
}
%most {
  a = bf16[] parameter(0)
  b = bf16[] parameter(1)
  ROOT c = bf16[] maximum(a, b)
}
ENTRY %e {
  x = bf16[2048,16] parameter(0)
  y = bf16[8,100,3] parameter(1)
  zero = bf16[] constant(0)
  rows = bf16[16] reduce(x, zero), dimensions={0}, to_apply=%sum
  both = bf16[3] reduce(y, zero), dimensions={0,1}, to_apply=%sum
  short = bf16[100,3] reduce(y, zero), dimensions={0}, to_apply=%sum
  most = bf16[16] reduce(x, zero), dimensions={0}, to_apply=%most
  ROOT r = (bf16[16], bf16[3], bf16[100,3], bf16[16]) tuple(rows, both, short, most)
})"));
  ASSERT_TRUE(inlined) << inlined.error().message;
  const Computation& entry = inlined->entry_computation();
  // 100 is 4 windows less 28, 14 of them before.
  const std::vector<std::string> expected = {
      "rows/1 reshape bf16[64,32,16] of x",
      "rows/2 reduce bf16[64,16] of rows/1 1",
      "rows/3 reshape bf16[2,32,16] of rows/2",
      "rows/4 reduce bf16[2,16] of rows/3 1",
      "rows reduce bf16[16] of rows/4 0",
      "both/1 pad bf16[8,128,3] of y",
      "both/2 reshape bf16[1,8,4,32,3] of both/1",
      "both/3 reduce bf16[1,4,3] of both/2 1 3",
      "both reduce bf16[3] of both/3 0 1",
      "short reduce bf16[100,3] of y 0",
      "most reduce bf16[16] of x 0"};
  EXPECT_EQ(steps_of(entry), expected);
  EXPECT_NE(print_hlo(*inlined).find("padding=0_0x14_14x0_0"),
            std::string::npos);
}

TEST(HloInline, LeavesArraysWithoutElements) {
  const auto inlined = inline_calls(module_of(R"(HloModule m
%sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
ENTRY %e {
  x = f32[2,3] parameter(0)
  one = f32[] constant(1)
  none = f32[0,4] constant({ })
  rows = f32[2,0] constant({ { }, { } })
  turned = f32[4,0] transpose(none), dimensions={1,0}
  dot = f32[2,4] dot(rows, none), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  sums = f32[4] reduce(turned, one), dimensions={1}, to_apply=%sum
  pad = f32[2,4] pad(rows, one), padding=0_0x2_2
  both = f32[2,3] concatenate(rows, x), dimensions={1}
  three = f32[2,6] concatenate(x, rows, x), dimensions={1}
  ROOT r = (f32[2,4], f32[4], f32[2,4], f32[2,3], f32[2,6]) tuple(dot, sums, pad, both, three)
})"));
  ASSERT_TRUE(inlined) << inlined.error().message;
  const Computation& entry = inlined->entry_computation();
  std::string text;
  for (const Instruction& step : entry.instructions) {
    text += step.name + " " + std::string(opcode_name(step.opcode));
    for (const InstructionId id : step.operands)
      text += " " + entry.at(id).name;
    text += "\n";
  }
  EXPECT_EQ(text,
            "x parameter\none constant\ndot/zero constant\n"
            "dot broadcast dot/zero\nsums broadcast one\npad broadcast one\n"
            "both copy x\nthree concatenate x x\n"
            "r tuple dot sums pad both three\n");
}

TEST(HloInline, RefusesCallsThatExplode) {
  // 30 levels, each calling the level below twice: 2^30 instructions.
  std::string text =
      "HloModule m\n%c0 {\n  p = f32[] parameter(0)\n  ROOT n = f32[] "
      "negate(p)\n}\n";
  for (int i = 1; i < 30; ++i) {
    text += fmt::format(
        "%c{0} {{\n  p = f32[] parameter(0)\n  a = f32[] call(p), "
        "to_apply=%c{1}\n"
        "  ROOT b = f32[] call(a), to_apply=%c{1}\n}}\n",
        i, i - 1);
  }
  text +=
      "ENTRY e {\n  p = f32[] parameter(0)\n  ROOT r = f32[] call(p), "
      "to_apply=%c29\n}\n";
  const auto inlined = inline_calls(module_of(text));
  ASSERT_FALSE(inlined.has_value());
  EXPECT_EQ(inlined.error().kind, ErrorKind::kUnsupported);
  // Costs are kept by computation, so they do not explode: 2^29 negations.
  EXPECT_EQ(summarize(module_of(text)).cost.flops, 536870912.0);
}

}  // namespace
}  // namespace reprise
