// What kernels compute, by hand.
#include "data/kernel/kernel_flops.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "data/hlo/hlo.h"
#include "data/kernel/lower_kernel.h"

namespace reprise {
namespace {

/// Of one kernel of all ops of an entry but views.
double flops_of(const std::string& entry) {
  const Result<Module> module = parse_hlo(
      "HloModule m\nadd { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT "
      "r = f32[] add(a, b) }\nENTRY main {" +
      entry + "}\n");
  EXPECT_TRUE(module) << module.error().message;
  const InstructionId root = module->entry_computation().root;
  std::vector<InstructionId> ops;
  const auto& all = module->entry_computation().instructions;
  for (uint32_t i = 0; i < all.size(); ++i) {
    if (all[i].opcode != Opcode::kParameter &&
        all[i].opcode != Opcode::kConstant)
      ops.push_back(InstructionId{i});
  }
  const auto kernel = lower_kernel(*module, ops, {&root, 1});
  EXPECT_TRUE(kernel) << kernel.error().message;
  return kernel_flops(*kernel);
}

TEST(KernelFlops, CountEachOpOfALoopOfVectorsOnce) {
  EXPECT_EQ(flops_of(R"(
  x = f32[256] parameter(0)
  y = f32[256] add(x, x)
  ROOT r = f32[256] multiply(y, x))"),
            512);
}

// Beside a call for each element a loop makes no vectors: a plan that fused
// one with all around was priced at 0.9 ms and took 30. Two loads and a store
// of single elements come to the ops then.
TEST(KernelFlops, CountEightTimesBesideACallForEachElement) {
  for (const auto& [type, op, calls] :
       {std::tuple("f64", "remainder", true), std::tuple("f32", "power", false),
        std::tuple("f64", "power", true), std::tuple("f64", "divide", false),
        std::tuple("f32", "remainder", false),
        std::tuple("s32", "remainder", false)}) {
    const double weight = facts_of(*opcode_from_name(op)).weight;
    EXPECT_EQ(flops_of(fmt::format(R"(
  x = {0}[256] parameter(0)
  y = {0}[256] parameter(1)
  r = {0}[256] {1}(x, y)
  ROOT s = {0}[256] add(r, y))",
                                   type, op)),
              256 * (weight + 1 + (calls ? 7 * (weight + 1) + 8 * 3 : 0)))
        << type << " " << op;
  }
}

// A plan whose kernels compute a thing again and again was priced as if they
// did it once: a step of 0.12 ms took 0.50 under it.
TEST(KernelFlops, CountWhatItComputesAgain) {
  const double power = facts_of(Opcode::kExp).weight;
  // Each of the 4 windows of a row holds 16 elements of `power`, 8 of them
  // also in the next one.
  EXPECT_GE(flops_of(R"(
  x = f32[8,40] parameter(0)
  zero = f32[] constant(0)
  power = f32[8,40] exponential(x)
  ROOT w = f32[8,4] reduce-window(power, zero), window={size=1x16 stride=1x8}, to_apply=add)"),
            8 * 4 * 16 * (power + 1));
}

// Sums of halves, as associative scans make them, find each element by a clamp
// and a quotient: such kernels were priced at a tenth of what they took.
TEST(KernelFlops, CountHowElementsAreFound) {
  const double plain = flops_of(R"(
  x = f32[128] parameter(0)
  zero = f32[] constant(0)
  ROOT r = f32[255] pad(x, zero), padding=0_127)");
  // A border of the loop's own pieces costs nothing; a comparison, a select.
  EXPECT_EQ(plain, 255 * 2);
  // Every other element: besides, a remainder to compare, a clamp's quotient
  // and an element that is loaded by itself.
  const double apart = flops_of(R"(
  x = f32[128] parameter(0)
  zero = f32[] constant(0)
  ROOT r = f32[255] pad(x, zero), padding=0_0_1)");
  EXPECT_EQ(apart, 255 * (2 + 1 + 1 + 8));
}

TEST(KernelFlops, CountElementsOfShortLoopsOneByOne) {
  // 100 times: a start of the inner loop, of whose 6 iterations each has two
  // loads, an addition and a store.
  EXPECT_EQ(flops_of(R"(
  x = f32[100,6] parameter(0)
  y = f32[6,100] parameter(1)
  turned = f32[100,6] transpose(y), dimensions={1,0}
  ROOT sum = f32[100,6] add(x, turned))"),
            100 * (16 + 6 * 8 * (1 + 3)));
}

TEST(KernelFlops, CountLanesOfEachRow) {
  // 16 lanes are reset and combined beside each row, one by one.
  EXPECT_GE(flops_of(R"(
  x = f32[1000,40] parameter(0)
  zero = f32[] constant(0)
  ROOT r = f32[1000] reduce(x, zero), dimensions={1}, to_apply=add)"),
            1000 * (40 + 2 * 16 * 8));
}

// Rows that are gathered from where a value says are as others are.
TEST(KernelFlops, CountRowsThatAValueNamesAsRows) {
  const double rows = flops_of(R"(
  x = f32[50,64] parameter(0)
  places = s32[100,1] parameter(1)
  g = f32[100,64] gather(x, places), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,64}
  ROOT r = f32[100,64] add(g, g))");
  // Of each row: an add for each of 64, the inner loop's start, and its place,
  // which is loaded by itself.
  EXPECT_EQ(rows, 100 * (64 + 16 + 8));
}

}  // namespace
}  // namespace reprise
