#include "data/hlo/narrow_types.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "data/hlo/declared_type.h"
#include "data/hlo/hlo.h"
#include "tests/testing/parse_inlined.h"

namespace reprise {
namespace {

InlinedModule narrowed(const std::string& entry) {
  Result<InlinedModule> module =
      parse_inlined("HloModule m\nENTRY e {\n" + entry + "}\n");
  EXPECT_TRUE(module) << (module ? "" : module.error().message);
  return module ? *std::move(module) : InlinedModule();
}

std::string root_of(const InlinedModule& module) {
  const Computation& entry = module.entry_computation();
  return shape_text(entry.at(entry.root).shape);
}

TEST(NarrowTypes, ParametersAndResultsAreBytesThatSayWhatTheyWere) {
  const InlinedModule module = narrowed(
      " a = f8e4m3fn[3] parameter(0)\n b = s4[3] parameter(1)\n"
      " c = u4[3] parameter(2)\n d = f32[3] parameter(3)\n"
      " e = f8e5m2[3] convert(d)\n n = s4[3] negate(b)\n"
      " ROOT t = (f8e4m3fn[3], s4[3], u4[3], f8e5m2[3]) tuple(a, n, c, e)\n");
  const auto parameters = parameters_of(module.entry_computation());
  ASSERT_EQ(parameters.size(), 4U);
  const std::pair<const char*, const char*> kShapes[] = {
      {"u8[3]", "f8e4m3fn[3]"},
      {"s8[3]", "s4[3]"},
      {"u8[3]", "u4[3]"},
      {"f32[3]", "f32[3]"}};
  for (size_t i = 0; i < parameters.size(); ++i) {
    EXPECT_EQ(shape_text(parameters[i]->shape), kShapes[i].first);
    EXPECT_EQ(shape_text(declared_elements(*parameters[i])), kShapes[i].second);
  }
  EXPECT_EQ(root_of(module), "(u8[3], s8[3], u8[3], u8[3])");
  const Computation& entry = module.entry_computation();
  EXPECT_EQ(shape_text(declared_elements(entry.at(entry.root))),
            "(f8e4m3fn[3], s4[3], u4[3], f8e5m2[3])");
}

// Every bit of a NaN, and no work.
TEST(NarrowTypes, WhatGoesThroughAStepStaysAsItCame) {
  const InlinedModule module = narrowed(
      " a = f8e4m3fn[3] parameter(0)\n"
      " ROOT t = (f8e4m3fn[3]) tuple(a)\n");
  EXPECT_EQ(module.entry_computation().instructions.size(), 2U);
  EXPECT_EQ(root_of(narrowed(" ROOT a = f8e5m2[3] parameter(0)\n")), "u8[3]");
}

TEST(NarrowTypes, ARootMayBeAnyOp) {
  EXPECT_EQ(root_of(narrowed(" a = f32[3] parameter(0)\n"
                             " ROOT c = f8e5m2[3] convert(a)\n")),
            "u8[3]");
  EXPECT_EQ(root_of(narrowed(" a = s4[2,3] parameter(0)\n"
                             " ROOT c = s4[3,2] transpose(a), "
                             "dimensions={1,0}\n")),
            "s8[3,2]");
  EXPECT_EQ(root_of(narrowed(" a = f8e5m2[3] parameter(0)\n"
                             " t = (f8e5m2[3], f8e5m2[3]) tuple(a, a)\n"
                             " ROOT o = (f8e5m2[3], f8e5m2[3]) "
                             "opt-barrier(t)\n")),
            "(u8[3], u8[3])");
}

// As XLA compiles jnp.sort of f8e4m3fn: both ways between bits and values.
/// How many conversions to f16 a conversion of f32 to `type` takes.
size_t halves(const std::string& type, const std::string& header,
              const std::string& note) {
  Result<InlinedModule> module = parse_inlined(
      "HloModule m, " + header + "\nENTRY e {\n a = f32[3] parameter(0)\n" +
      " ROOT c = " + type + "[3] convert(a), " + note + "\n}\n");
  EXPECT_TRUE(module) << (module ? "" : module.error().message);
  if (!module) return 0;
  const auto& all = module->entry_computation().instructions;
  return static_cast<size_t>(
      std::count_if(all.begin(), all.end(), [](const Instruction& one) {
        return one.shape.type == PrimitiveType::kF16;
      }));
}

// As XLA:CPU of JAX 0.5.3 rounds all that becomes these four types, and that of
// 0.7.2 some.
TEST(NarrowTypes, SomeAreRoundedToHalfBeforeWhereItIsSaid) {
  const std::string note = "frontend_attributes={reprise_narrow=\"by_f16\"}";
  const std::string plain = "is_scheduled=true", none = "metadata={}";
  for (const char* type : {"f8e4m3fn", "f8e5m2", "f8e4m3b11fnuz", "f4e2m1fn"}) {
    EXPECT_EQ(halves(type, plain, none), 0U) << type;
    EXPECT_EQ(halves(type, note, none), 1U) << type;
    EXPECT_EQ(halves(type, plain, note), 1U) << type;
  }
  for (const char* type :
       {"f8e4m3fnuz", "f8e5m2fnuz", "f8e3m4", "f8e4m3", "f8e8m0fnu"})
    EXPECT_EQ(halves(type, note, note), 0U) << type;
}

TEST(NarrowTypes, AComparatorMayReadBitsByABitcast) {
  const Result<InlinedModule> module = parse_inlined(
      "HloModule m\n"
      "less {\n x = f16[] parameter(0)\n y = f16[] parameter(1)\n"
      " a = f8e4m3fn[] convert(x)\n b = f8e4m3fn[] convert(y)\n"
      " c = s8[] bitcast(a)\n d = s8[] bitcast(b)\n"
      " e = f8e5m2[] bitcast(d)\n f = s8[] bitcast(e)\n"
      " ROOT l = pred[] compare(c, f), direction=LT\n}\n"
      "ENTRY e {\n v = f16[5] parameter(0)\n"
      " ROOT s = f16[5] sort(v), dimensions={0}, to_apply=less\n}\n");
  ASSERT_TRUE(module) << module.error().message;
  for (const Instruction& op : module->computations[0].instructions)
    EXPECT_NE(op.opcode, Opcode::kBitcast) << op.name;
}

// A program may hold the mark itself.
TEST(NarrowTypes, AMarkThatContradictsTheShapeSaysNothing) {
  for (const char* mark :
       {"{declared_type=\"f64\"}", "{declared_type=\"f8e5m2\"}",
        "{declared_type=\"none\"}", "{declared_type=\",,f8e5m2\"}",
        "{interleaved_complex=\"true\"}"}) {
    const InlinedModule module =
        narrowed(std::string(" ROOT a = f32[] parameter(0), "
                             "frontend_attributes=") +
                 mark + "\n");
    EXPECT_EQ(declared_type(*parameters_of(module.entry_computation())[0]),
              PrimitiveType::kF32)
        << mark;
  }
}

}  // namespace
}  // namespace reprise
