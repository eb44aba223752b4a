// Which parts kernels have, by hand.
#include "data/kernel/kernel_parts.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "data/hlo/hlo.h"
#include "data/kernel/lower_kernel.h"
#include "tests/testing/named_ops.h"

namespace reprise {
namespace {

constexpr const char* kSteps = R"(
HloModule m
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
ENTRY main {
  x = f32[32,32] parameter(0)
  v = f32[64] parameter(1)
  rate = f32[1] parameter(2)
  zero = f32[] constant(0)
  twice = f32[32,32] add(x, x)
  columns = f32[32] reduce(twice, zero), dimensions={0}, to_apply=add
  blocks = f32[2,16,32] reshape(twice)
  halves = f32[2,32] reduce(blocks, zero), dimensions={1}, to_apply=add
  rows = f32[32] reduce(x, zero), dimensions={1}, to_apply=add
  squares = f32[64] multiply(v, v)
  whole = f32[] reduce(squares, zero), dimensions={0}, to_apply=add
  wholes = f32[64] broadcast(whole), dimensions={}
  unit = f32[64] divide(squares, wholes)
  one = f32[] reshape(rate)
  rates = f32[64] broadcast(one), dimensions={}
  slower = f32[64] multiply(v, rates)
  ROOT out = (f32[32]) tuple(columns)
}
)";

using Range = std::pair<int64_t, int64_t>;

class PartsOf : public ::testing::Test {
 protected:
  Kernel lower(const std::vector<std::string>& names) const {
    const std::vector<InstructionId> ops = named_ops(module_, names);
    return *lower_kernel(module_, ops, ops);
  }

  std::vector<Range> ranges(const std::vector<std::string>& names) const {
    std::vector<Range> found;
    for (const KernelPart& part : kernel_parts(lower(names)).parts)
      found.emplace_back(part.begin, part.end);
    return found;
  }

  Module module_ = *parse_hlo(kSteps);
};

TEST_F(PartsOf, AnElementwiseKernelAreItsLoop) {
  EXPECT_EQ(ranges({"twice"}), (std::vector<Range>{{0, 1024}}));
}

TEST_F(PartsOf, ASumOverRowsAreItsFirstValuesAndOneSerialPart) {
  EXPECT_EQ(ranges({"twice", "columns"}),
            (std::vector<Range>{{0, 32}, {32, 33}}));
}

TEST_F(PartsOf, ASumOverRowsByBlocksAreItsBlocks) {
  EXPECT_EQ(ranges({"twice", "halves"}),
            (std::vector<Range>{{0, 64}, {64, 66}}));
}

TEST_F(PartsOf, NestsOfTheirOwnAreOneEach) {
  EXPECT_EQ(ranges({"rows", "slower"}),
            (std::vector<Range>{{0, 32}, {32, 96}}));
  const std::vector<KernelPart> parts =
      kernel_parts(lower({"rows", "twice", "slower"})).parts;
  double share = 0;
  for (const KernelPart& part : parts) share += part.share;
  EXPECT_NEAR(share, 1, 1e-12);
}

TEST_F(PartsOf, WhatUsesATotalStaysWithIt) {
  EXPECT_EQ(ranges({"squares", "whole"}), (std::vector<Range>{{0, 1}}));
  EXPECT_EQ(ranges({"squares", "whole", "unit", "rows"}),
            (std::vector<Range>{{0, 32}, {32, 33}}));
}

TEST_F(PartsOf, EveryRangeBeginsWithWhatStandsOutsideOfLoops) {
  const Kernel kernel = lower({"slower"});
  const KernelParts parts = kernel_parts(kernel);
  ASSERT_EQ(parts.always.size(), 1u) << kernel_text(kernel);
  EXPECT_EQ(parts.iterations(), 64);
}

}  // namespace
}  // namespace reprise
