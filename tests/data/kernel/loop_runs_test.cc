// Which loops of a nest are one loop of its kernel.
#include "data/kernel/loop_runs.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "data/hlo/hlo.h"
#include "data/kernel/lower_kernel.h"

namespace reprise {
namespace {

/// Subtracts means of pairs; `op` is applied to what is left.
std::string centred(const char* op) {
  const Result<Module> module = parse_hlo(fmt::format(R"(
HloModule m
ENTRY main {{
  x = f32[3,16,4,2] parameter(0)
  mean = f32[3,4] parameter(1)
  scale = f32[4,2] parameter(2)
  means = f32[3,16,4,2] broadcast(mean), dimensions={{0,2}}
  scales = f32[3,16,4,2] broadcast(scale), dimensions={{2,3}}
  centred = f32[3,16,4,2] subtract(x, means)
  scaled = f32[3,16,4,2] multiply(centred, scales)
  ROOT r = f32[3,16,4,2] {}(scaled)
}}
)",
                                                      op));
  EXPECT_TRUE(module) << module.error().message;
  const std::vector<InstructionId> ops{InstructionId{5}, InstructionId{6},
                                       InstructionId{7}};
  const Result<Kernel> kernel = lower_kernel(*module, ops, {&ops.back(), 1});
  EXPECT_TRUE(kernel) << kernel.error().message;
  return std::string(1, '\n').append(kernel_text(*kernel));
}

/// A loop of two iterations is no vector: where its op is dear and it stores in
/// order, it joins the loops around it, and what has fewer elements is found by
/// division.
TEST(LoopRuns, ShortOnesOfDearOpsFoldIntoOne) {
  EXPECT_EQ(centred("exponential"), R"(
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
    v5: f32 = exponential v4
    a3[128*i0 + i1] = v5
)");
}

TEST(LoopRuns, ShortOnesOfCheapOpsStayLoops) {
  const std::string text = centred("negate");
  EXPECT_NE(text.find("for i3 < 2"), std::string::npos) << text;
  EXPECT_EQ(text.find('/'), std::string::npos) << text;
}

}  // namespace
}  // namespace reprise
