// The shape of lowered kernels: loops, phases, what is shared and what is
// refused.
#include "data/kernel/lower_kernel.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "data/hlo/hlo.h"
#include "data/kernel/kernel_parts.h"
#include "data/kernel/kernel_traffic.h"
#include "tests/testing/named_ops.h"

namespace reprise {
namespace {

constexpr const char* kText = R"(
HloModule m
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
max { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] maximum(a, b) }
ENTRY main {
  x = f32[8,32] parameter(0)
  bias = f32[32] parameter(1)
  other = f32[8,32] parameter(2)
  zero = f32[] constant(0)
  low = f32[] constant(-inf)
  wide = f32[8,32] broadcast(bias), dimensions={1}
  sum = f32[8,32] add(x, wide)
  twice = f32[8,32] add(sum, sum)
  plain = f32[8,32] multiply(x, other)
  top = f32[8] reduce(sum, low), dimensions={1}, to_apply=max
  tops = f32[8,32] broadcast(top), dimensions={0}
  shifted = f32[8,32] subtract(sum, tops)
  power = f32[8,32] exponential(shifted)
  total = f32[8] reduce(power, zero), dimensions={1}, to_apply=add
  totals = f32[8,32] broadcast(total), dimensions={0}
  soft = f32[8,32] divide(power, totals)
  columns = f32[32] reduce(soft, zero), dimensions={0}, to_apply=add
  after = f32[32] negate(columns)
  heads = f32[8,4,8] reshape(sum)
  turned = f32[4,8,8] transpose(heads), dimensions={1,0,2}
  far = f32[16,16] parameter(3)
  rows = f32[16] reduce(far, zero), dimensions={1}, to_apply=add
  scores = f32[8] reduce(x, zero), dimensions={1}, to_apply=add
  dot = f32[8,8] dot(x, other), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  flipped = f32[8,32] reverse(x), dimensions={1}
  back = f32[8,32] add(x, flipped)
  pair = (f32[8,32], f32[32]) tuple(plain, bias)
  held = (f32[8,32], f32[32]) opt-barrier(pair)
  first = f32[8,32] get-tuple-element(held), index=0
  beyond = f32[8,32] add(first, x)
  ROOT out = (f32[32], f32[4,8,8]) tuple(after, turned)
}
)";

class LowerKernel : public ::testing::Test {
 protected:
  LowerKernel() : module_(*parse_hlo(kText)) {}

  Result<Kernel> lower(const std::vector<std::string>& ops,
                       const std::vector<std::string>& outputs) const {
    return lower_kernel(module_, named_ops(module_, ops),
                        named_ops(module_, outputs));
  }
  std::string text(const std::vector<std::string>& ops,
                   const std::vector<std::string>& outputs) const {
    const Result<Kernel> kernel = lower(ops, outputs);
    return kernel ? std::string(1, '\n').append(kernel_text(*kernel))
                  : kernel.error().message;
  }

  Module module_;
};

TEST_F(LowerKernel, ElementwiseOpsOfOneShapeAreOneFlatLoop) {
  EXPECT_EQ(text({"plain"}, {"plain"}), R"(
input a0: f32[256]
input a1: f32[256]
output a2: f32[256]
for i0 < 256
  v0: f32 = load a0[i0]
  v1: f32 = load a1[i0]
  v2: f32 = multiply v0 v1
  a2[i0] = v2
)");
}

TEST_F(LowerKernel, WhatPassesABarrierWithinAGroupIsNotLoaded) {
  EXPECT_EQ(text({"plain", "beyond"}, {"plain", "beyond"}), R"(
input a0: f32[256]
input a1: f32[256]
output a2: f32[256]
output a3: f32[256]
for i0 < 256
  v0: f32 = load a0[i0]
  v1: f32 = load a1[i0]
  v2: f32 = multiply v0 v1
  v3: f32 = add v2 v0
  a2[i0] = v2
  a3[i0] = v3
)");
}

TEST_F(LowerKernel, BroadcastsFoldIntoLoads) {
  EXPECT_EQ(text({"sum", "twice"}, {"twice"}), R"(
input a0: f32[256]
input a1: f32[32]
output a2: f32[256]
for i0 < 8
  for i1 < 32
    v0: f32 = load a0[32*i0 + i1]
    v1: f32 = load a1[i1]
    v2: f32 = add v0 v1
    v3: f32 = add v2 v2
    a2[32*i0 + i1] = v3
)");
}

TEST_F(LowerKernel, SoftmaxIsOneRowOfThreePhasesAndSumsItsColumns) {
  const std::string printed =
      text({"sum", "top", "shifted", "power", "total", "soft", "columns"},
           {"soft", "columns"});
  // The exponential is dear: kept in a scratch; the sum is cheap: added again.
  EXPECT_EQ(printed, R"(
input a0: f32[256]
input a1: f32[32]
output a2: f32[256]
output a3: f32[32]
scratch s0: f32[32]
lanes r0: f32 maximum over i2
lanes r1: f32 add over i2
v0: f32 = literal 0x0
for i0 < 32
  a3[i0] = v0
v1: f32 = literal 0xff800000
v2: f32 = literal 0x0
for i1 < 8 in order
  reset r0
  for i2 < 32
    v3: f32 = load a0[32*i1 + i2]
    v4: f32 = load a1[i2]
    v5: f32 = add v3 v4
    accumulate r0 v5
  v6: f32 = total r0
  v7: f32 = maximum v1 v6
  reset r1
  for i2 < 32
    v8: f32 = load a0[32*i1 + i2]
    v9: f32 = load a1[i2]
    v10: f32 = add v8 v9
    v11: f32 = subtract v10 v7
    v12: f32 = exponential v11
    s0[i2] = v12
    accumulate r1 v12
  v13: f32 = total r1
  v14: f32 = add v2 v13
  for i2 < 32
    v15: f32 = scratch s0[i2]
    v16: f32 = divide v15 v14
    a2[32*i1 + i2] = v16
    a3[i2] add= v16
)");
}

/// The first value that a block reads before it is there; -1 where none is.
/// `known`: by value, as of the blocks around.
int32_t unknown_value(const Kernel& kernel,
                      const std::vector<KernelStatement>& block,
                      std::vector<bool> known) {
  const auto is_known = [&](int32_t value) {
    return value < 0 || known[static_cast<size_t>(value)];
  };
  for (const KernelStatement& statement : block) {
    if (statement.kind == KernelStatement::Kind::kLoop) {
      const int32_t inside = unknown_value(kernel, statement.body, known);
      if (inside >= 0) return inside;
    } else if (statement.kind == KernelStatement::Kind::kLet) {
      const auto value = static_cast<size_t>(statement.value);
      for (const int32_t operand : kernel.values[value].operands) {
        if (!is_known(operand)) return operand;
      }
      known[value] = true;
    } else if (!is_known(statement.value)) {
      return statement.value;
    }
  }
  return -1;
}

// `dear` is kept for the second phase, in its innermost loop, but depends on
// the outer of two loops alone, as does `from_it`.
TEST(LowerKernelScopes, WhatIsMadeFromAKeptValueStandsWhereThatIs) {
  const auto module = parse_hlo(R"(
HloModule m
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
ENTRY main {
  x = f32[4,3,5] parameter(0)
  a = f32[3] parameter(1)
  zero = f32[] constant(0)
  dear = f32[3] exponential(a)
  from_it = f32[3] negate(dear)
  dears = f32[4,3,5] broadcast(dear), dimensions={1}
  froms = f32[4,3,5] broadcast(from_it), dimensions={1}
  scaled = f32[4,3,5] multiply(x, dears)
  moved = f32[4,3,5] add(scaled, froms)
  sum = f32[4] reduce(moved, zero), dimensions={1,2}, to_apply=add
  sums = f32[4,3,5] broadcast(sum), dimensions={0}
  less = f32[4,3,5] subtract(x, sums)
  ROOT out = f32[4,3,5] multiply(less, dears)
}
)");
  ASSERT_TRUE(module) << module.error().message;
  const std::vector<Instruction>& instructions =
      module->entry_computation().instructions;
  std::vector<InstructionId> ops;
  for (uint32_t i = 3; i < instructions.size(); ++i)
    ops.push_back(InstructionId{i});
  const Result<Kernel> kernel = lower_kernel(*module, ops, {&ops.back(), 1});
  ASSERT_TRUE(kernel) << kernel.error().message;
  EXPECT_EQ(kernel->scratches.size(), 1U);
  EXPECT_EQ(unknown_value(*kernel, kernel->body,
                          std::vector<bool>(kernel->values.size())),
            -1)
      << kernel_text(*kernel);
}

TEST_F(LowerKernel, ATransposedReshapeIsStrides) {
  const std::string printed = text({"sum", "turned"}, {"turned"});
  EXPECT_NE(printed.find("load a0[8*i0 + 32*i1 + i2]"), std::string::npos)
      << printed;
  EXPECT_NE(printed.find("a2[64*i0 + 8*i1 + i2] = "), std::string::npos)
      << printed;
}

TEST_F(LowerKernel, OutputsOfSeveralShapesShareTheirLoops) {
  const std::string printed = text({"sum", "turned"}, {"sum", "turned"});
  EXPECT_EQ(printed.find("for i0", printed.find("for i0") + 1),
            std::string::npos)
      << printed;
  EXPECT_NE(printed.find("a2["), std::string::npos);
  EXPECT_NE(printed.find("a3["), std::string::npos);
}

TEST_F(LowerKernel, AViewCanBeMaterialized) {
  EXPECT_EQ(text({}, {"wide"}), R"(
input a0: f32[32]
output a1: f32[256]
for i0 < 8
  for i1 < 32
    v0: f32 = load a0[i1]
    a1[i1 + 32*i0] = v0
)");
}

TEST_F(LowerKernel, RefusesWithTheReason) {
  const auto used = lower({"columns", "after"}, {"after"});
  ASSERT_FALSE(used);
  EXPECT_EQ(used.error().kind, ErrorKind::kInfeasible);
  EXPECT_NE(used.error().message.find("columns"), std::string::npos);
  const auto dot = lower({"dot"}, {"dot"});
  ASSERT_FALSE(dot);
  EXPECT_EQ(dot.error().kind, ErrorKind::kUnsupported);
  EXPECT_NE(dot.error().message.find("dot"), std::string::npos);
}

TEST_F(LowerKernel, RefusesOpsThatTheirTypeDoesNotHave) {
  for (const char* op : {"f32[4] and(x, x)", "f32[4] not(x)", "s32[4] tanh(i)",
                         "pred[4] divide(p, p)", "f32[4] shift-left(x, x)"}) {
    const auto module = parse_hlo(
        fmt::format("HloModule m\nENTRY e {{ x = f32[4] parameter(0)\n"
                    "i = s32[4] parameter(1)\np = pred[4] parameter(2)\n"
                    "ROOT bad = {} }}\n",
                    op));
    if (!module) continue;  // The verifier was faster.
    const InstructionId root = module->entry_computation().root;
    const auto kernel = lower_kernel(*module, {&root, 1}, {&root, 1});
    ASSERT_FALSE(kernel) << op;
    EXPECT_EQ(kernel.error().kind, ErrorKind::kUnsupported) << op;
    EXPECT_NE(kernel.error().message.find("bad"), std::string::npos) << op;
  }
}

TEST_F(LowerKernel, ReadsScalarsOfEverySpelling) {
  for (const char* literal : {"5", "s32[] 5", "{5}"}) {
    const auto module = parse_hlo(
        fmt::format("HloModule m\nENTRY e {{ x = s32[4] parameter(0)\n"
                    "k = s32[] constant({})\n"
                    "b = s32[4] broadcast(k), dimensions={{}}\n"
                    "ROOT sum = s32[4] add(x, b) }}\n",
                    literal));
    ASSERT_TRUE(module) << literal << ": " << module.error().message;
    const InstructionId root = module->entry_computation().root;
    const auto kernel = lower_kernel(*module, {&root, 1}, {&root, 1});
    ASSERT_TRUE(kernel) << literal << ": " << kernel.error().message;
    EXPECT_NE(kernel_text(*kernel).find("literal 0x5\n"), std::string::npos)
        << literal << ": " << kernel_text(*kernel);
  }
}

/// `count` times: a = op(a), or a less the sums of its rows.
std::string repeated(int count, bool reduces) {
  std::string text =
      "HloModule m\nadd { a = f32[] parameter(0)  b = f32[] parameter(1)  "
      "ROOT r = f32[] add(a, b) }\nENTRY e {\n"
      "  zero = f32[] constant(0)\n  a0 = f32[4,16] parameter(0)\n";
  for (int i = 0; i < count; ++i) {
    if (!reduces) {
      text += fmt::format("  a{} = f32[4,16] negate(a{})\n", i + 1, i);
      continue;
    }
    text += fmt::format(
        "  r{0} = f32[4] reduce(a{0}, zero), dimensions={{1}}, to_apply=add\n"
        "  b{0} = f32[4,16] broadcast(r{0}), dimensions={{0}}\n"
        "  a{1} = f32[4,16] subtract(a{0}, b{0})\n",
        i, i + 1);
  }
  return text + fmt::format("  ROOT out = f32[4,16] negate(a{})\n}}\n", count);
}

/// Why all ops of a program are not one kernel, or nothing.
std::string refusal_of_all(const std::string& text) {
  const auto module = parse_hlo(text);
  if (!module) return module.error().message;
  std::vector<InstructionId> ops;
  const auto& instructions = module->entry_computation().instructions;
  for (uint32_t i = 0; i < instructions.size(); ++i) {
    const Opcode opcode = instructions[i].opcode;
    if (opcode == Opcode::kReduce || opcode == Opcode::kSubtract ||
        opcode == Opcode::kNegate)
      ops.push_back(InstructionId{i});
  }
  const auto kernel = lower_kernel(*module, ops, {&ops.back(), 1});
  if (kernel) return {};
  EXPECT_EQ(kernel.error().kind, ErrorKind::kInfeasible);
  return kernel.error().message;
}

TEST_F(LowerKernel, TakesReductionsOfItsRowsInAsManyPhasesAsAWordHasBits) {
  EXPECT_EQ(refusal_of_all(repeated(63, true)), "");
  EXPECT_EQ(refusal_of_all(repeated(64, true)),
            "r63: too many reductions of its rows one after the other");
}

TEST_F(LowerKernel, RefusesChainsThatWouldOverflowTheStack) {
  EXPECT_EQ(refusal_of_all(repeated(1900, false)), "");
  EXPECT_NE(refusal_of_all(repeated(150000, false))
                .find("too many ops one after the other"),
            std::string::npos);
}

TEST_F(LowerKernel, UnrelatedOutputsGetNestsOfTheirOwn) {
  const auto kernel = lower({"rows", "scores"}, {"rows", "scores"});
  ASSERT_TRUE(kernel) << kernel.error().message;
  EXPECT_EQ(kernel->accumulators.size(), 2u);
  EXPECT_EQ(kernel_iterations(*kernel), 16 + 8);
}

TEST_F(LowerKernel, InPlaceNeedsTheSameElementNotReadAgain) {
  // Inputs x, bias; output soft: x is read in phases 0 and 1, soft stored in
  // phase 2.
  const auto soft =
      lower({"sum", "top", "shifted", "power", "total", "soft"}, {"soft"});
  ASSERT_TRUE(soft);
  EXPECT_TRUE(in_place_safe(*soft, 0, 2));
  EXPECT_FALSE(in_place_safe(*soft, 1, 2));
  // sum is stored in phase 0, but x is read again in phase 1.
  const auto early = lower({"sum", "top", "shifted", "power", "total", "soft"},
                           {"sum", "soft"});
  ASSERT_TRUE(early);
  EXPECT_FALSE(in_place_safe(*early, 0, 2));
  EXPECT_TRUE(in_place_safe(*early, 0, 3));
  // flipped reads another element than the one that is stored.
  const auto back = lower({"flipped", "back"}, {"back"});
  ASSERT_TRUE(back);
  EXPECT_FALSE(in_place_safe(*back, 0, 1));
}

TEST_F(LowerKernel, BytesFollowTheRulesOfFusions) {
  const auto kernel = lower({"sum", "twice"}, {"twice"});
  ASSERT_TRUE(kernel);
  EXPECT_EQ(kernel_bytes(*kernel), 4 * (256 + 32 + 256));  // x, bias, out.
}

}  // namespace
}  // namespace reprise
