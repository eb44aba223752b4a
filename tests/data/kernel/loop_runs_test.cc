// Which loops of a nest are one loop of its kernel.
#include "data/kernel/loop_runs.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "data/hlo/hlo.h"
#include "data/kernel/lower_kernel.h"

namespace reprise {
namespace {

/// A loop of two iterations is no vector: stored in order, it joins the loops
/// around it, and what has fewer elements is found by division.
TEST(LoopRuns, ShortOnesFoldIntoOne) {
  const Result<Module> module = parse_hlo(R"(
HloModule m
ENTRY main {
  x = f32[3,16,4,2] parameter(0)
  mean = f32[3,4] parameter(1)
  scale = f32[4,2] parameter(2)
  means = f32[3,16,4,2] broadcast(mean), dimensions={0,2}
  scales = f32[3,16,4,2] broadcast(scale), dimensions={2,3}
  centred = f32[3,16,4,2] subtract(x, means)
  ROOT scaled = f32[3,16,4,2] multiply(centred, scales)
}
)");
  ASSERT_TRUE(module) << module.error().message;
  const std::vector<InstructionId> ops{InstructionId{5}, InstructionId{6}};
  const Result<Kernel> kernel = lower_kernel(*module, ops, {&ops.back(), 1});
  ASSERT_TRUE(kernel) << kernel.error().message;
  EXPECT_EQ(std::string(1, '\n').append(kernel_text(*kernel)), R"(
input a0: f32[384]
input a1: f32[12]
input a2: f32[8]
output a3: f32[384]
for i0 < 3
  for i1 < 128
    v0: f32 = load a0[128*i0 + i1]
    v1: f32 = load a1[4*i0 + ((i1)/2)%4]
    v2: f32 = subtract v0 v1
    v3: f32 = load a2[(i1)%8]
    v4: f32 = multiply v2 v3
    a3[128*i0 + i1] = v4
)");
}

}  // namespace
}  // namespace reprise
