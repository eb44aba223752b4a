#include "data/hlo/split_complex.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "data/hlo/complex_parts.h"
#include "data/hlo/declared_type.h"
#include "data/hlo/hlo.h"
#include "data/hlo/matrix_operation.h"
#include "tests/testing/parse_inlined.h"

namespace reprise {
namespace {

InlinedModule inlined(const std::string& text) {
  Result<InlinedModule> module = parse_inlined("HloModule m\n" + text);
  EXPECT_TRUE(module) << (module ? "" : module.error().message);
  return module ? *std::move(module) : InlinedModule();
}

int count(const Computation& computation, Opcode opcode) {
  return static_cast<int>(std::count_if(
      computation.instructions.begin(), computation.instructions.end(),
      [&](const Instruction& each) { return each.opcode == opcode; }));
}

// f32[3,2] has the bytes of c64[3], so files and aliases fit as before; what
// the parameter was, its mark says.
TEST(SplitComplex, KeepsNumberAndBytesOfTheEntrysArrays) {
  const InlinedModule module = inlined(
      "ENTRY e {\n x = f32[3] parameter(0)\n z = c64[3] parameter(1)\n"
      " w = c128[] parameter(2)\n s = c64[3] multiply(z, z)\n"
      " ROOT t = (c64[3], f32[3], c128[]) tuple(s, x, w)\n}\n");
  EXPECT_FALSE(uses_complex(module));
  const Computation& entry = module.entry_computation();
  const auto parameters = parameters_of(entry);
  ASSERT_EQ(parameters.size(), 3U);
  EXPECT_EQ(shape_text(parameters[0]->shape), "f32[3]");
  EXPECT_EQ(shape_text(parameters[1]->shape), "f32[3,2]");
  EXPECT_EQ(shape_text(parameters[2]->shape), "f64[2]");
  EXPECT_EQ(declared_type(*parameters[0]), PrimitiveType::kF32);
  EXPECT_EQ(declared_type(*parameters[1]), PrimitiveType::kC64);
  EXPECT_EQ(declared_type(*parameters[2]), PrimitiveType::kC128);
  EXPECT_EQ(shape_text(entry.at(entry.root).shape),
            "(f32[3,2], f32[3], f64[2])");
  // Of the four products two are part of the sums.
  EXPECT_EQ(count(entry, Opcode::kMultiply), 2);
  EXPECT_EQ(count(entry, Opcode::kMultiplySubtract), 1);
  EXPECT_EQ(count(entry, Opcode::kMultiplyAdd), 1);
}

// One collective stays one, so that a plan's buckets name what the text has;
// its computation adds real numbers.
TEST(SplitComplex, SendsBothPartsInOneAllReduce) {
  const InlinedModule module = inlined(
      "add {\n a = c64[] parameter(0)\n b = c64[] parameter(1)\n"
      " ROOT s = c64[] add(a, b)\n}\n"
      "ENTRY e {\n z = c64[3] parameter(0)\n"
      " ROOT r = c64[3] all-reduce(z), replica_groups={}, to_apply=add\n}\n");
  const Computation& entry = module.entry_computation();
  ASSERT_EQ(count(entry, Opcode::kAllReduce), 1);
  const auto reduce = std::find_if(
      entry.instructions.begin(), entry.instructions.end(),
      [](const Instruction& i) { return i.opcode == Opcode::kAllReduce; });
  EXPECT_EQ(reduce->name, "r");
  EXPECT_EQ(shape_text(reduce->shape), "(f32[3], f32[3])");
  const Computation& add = module.at(*called_computation(*reduce));
  EXPECT_EQ(shape_text(add.at(add.root).shape), "f32[]");
}

// Of n elements the error of one-by-one sums grows: parts take the steps of
// sum_steps.h as any real sum does.
TEST(SplitComplex, TakesLongSumsInSteps) {
  const InlinedModule module = inlined(
      "add {\n a = c64[] parameter(0)\n b = c64[] parameter(1)\n"
      " ROOT s = c64[] add(a, b)\n}\n"
      "ENTRY e {\n z = c64[100,90,8] parameter(0)\n"
      " zero = c64[] constant((0, 0))\n"
      " ROOT r = c64[8] reduce(z, zero), dimensions={0,1}, to_apply=add\n}\n");
  EXPECT_EQ(count(module.entry_computation(), Opcode::kReduce), 4);
}

// A comparator takes (a, b) of each array in turn: re(a), re(b), im(a), im(b).
TEST(SplitComplex, GivesComparatorsTheirPairs) {
  const InlinedModule module = inlined(
      "less {\n a = c64[] parameter(0)\n b = c64[] parameter(1)\n"
      " i = s32[] parameter(2)\n j = s32[] parameter(3)\n"
      " x = f32[] real(a)\n y = f32[] imag(b)\n"
      " ROOT l = pred[] compare(x, y), direction=LT\n}\n"
      "ENTRY e {\n z = c64[5] parameter(0)\n i = s32[5] parameter(1)\n"
      " s = (c64[5], s32[5]) sort(z, i), dimensions={0}, to_apply=less\n"
      " ROOT r = c64[5] get-tuple-element(s), index=0\n}\n");
  EXPECT_FALSE(uses_complex(module));
  const Computation& less = module.computations[0];
  const auto parameters = parameters_of(less);
  ASSERT_EQ(parameters.size(), 6U);
  EXPECT_EQ(shape_text(parameters[5]->shape), "s32[]");
  const Instruction& root = less.at(less.root);
  EXPECT_EQ(less.at(root.operands[0]).parameter_number, 0);
  EXPECT_EQ(less.at(root.operands[1]).parameter_number, 3);
}

// Branches and loops take one value each.
TEST(SplitComplex, PassesALoneComplexNumberAsAPair) {
  const InlinedModule module = inlined(
      "c {\n z = c64[] parameter(0)\n x = f32[] abs(z)\n"
      " m = f32[] constant(9)\n ROOT l = pred[] compare(x, m), "
      "direction=LT\n}\n"
      "b {\n z = c64[] parameter(0)\n ROOT s = c64[] add(z, z)\n}\n"
      "ENTRY e {\n z = c64[] parameter(0)\n"
      " ROOT w = c64[] while(z), condition=c, body=b\n}\n");
  EXPECT_FALSE(uses_complex(module));
  EXPECT_EQ(
      shape_text(module.computations[1].at(module.computations[1].root).shape),
      "(f32[], f32[])");
}

// For lowering to name: the call has the instruction's name and its parts.
TEST(SplitComplex, CallsWhatHasNoPartsByItsName) {
  const InlinedModule module = inlined(
      "ENTRY e {\n z = c64[3] parameter(0)\n g = c64[3] erf(z)\n"
      " ROOT a = f32[3] abs(g)\n}\n");
  EXPECT_FALSE(uses_complex(module));
  const Computation& entry = module.entry_computation();
  ASSERT_EQ(count(entry, Opcode::kCustomCall), 1);
  const auto call = std::find_if(
      entry.instructions.begin(), entry.instructions.end(),
      [](const Instruction& i) { return i.opcode == Opcode::kCustomCall; });
  EXPECT_EQ(call->name, "g");
  EXPECT_EQ(custom_call_target(*call), "complex erf");
  EXPECT_EQ(shape_text(call->shape), "(f32[3], f32[3])");
}

}  // namespace
}  // namespace reprise
