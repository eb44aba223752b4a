// What kernels fetch, by hand.
#include "data/kernel/kernel_traffic.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "data/hlo/hlo.h"
#include "data/kernel/lower_kernel.h"
#include "tests/testing/named_ops.h"

namespace reprise {
namespace {

constexpr const char* kRowsAndColumns = R"(
HloModule m
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
max { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] maximum(a, b) }
ENTRY main {
  x = f32[64,4096] parameter(0)
  zero = f32[] constant(0)
  low = f32[] constant(-inf)
  across = f32[4096,64] transpose(x), dimensions={1,0}
  sums = f32[4096] reduce(across, zero), dimensions={1}, to_apply=add
  few = f32[64,16] parameter(1)
  few_across = f32[16,64] transpose(few), dimensions={1,0}
  few_sums = f32[16] reduce(few_across, zero), dimensions={1}, to_apply=add
  most = f32[64] reduce(x, low), dimensions={1}, to_apply=max
  wide = f32[64,4096] broadcast(most), dimensions={0}
  less = f32[64,4096] subtract(x, wide)
  ROOT out = (f32[4096]) tuple(sums)
})";

class Traffic : public ::testing::Test {
 protected:
  Kernel lower(const std::vector<std::string>& ops,
               const std::vector<std::string>& outputs) const {
    return *lower_kernel(module_, named_ops(module_, ops),
                         named_ops(module_, outputs));
  }

 private:
  const Module module_ = *parse_hlo(kRowsAndColumns);
};

constexpr double kX = 64 * 4096 * 4;

TEST_F(Traffic, OfATransposeIsEachArrayOnceSinceItRunsByBlocks) {
  EXPECT_EQ(kernel_traffic(lower({"across"}, {"across"})), 2 * kX);
}

TEST_F(Traffic, OfSumsAcrossRowsThatTheCacheHoldsIsEachLineOnce) {
  // 64 lines pass until the next element of each line.
  EXPECT_EQ(kernel_traffic(lower({"across", "sums"}, {"sums"})), kX + 4096 * 4);
  EXPECT_EQ(kernel_traffic(lower({"few_across", "few_sums"}, {"few_sums"})),
            64 * 16 * 4 + 16 * 4);
}

TEST_F(Traffic, OfRowsThatAreReadTwiceIsEachOnce) {
  EXPECT_EQ(kernel_traffic(lower({"most", "less"}, {"less"})), 2 * kX);
}

// A column of 4,096 rows is 4,096 lines, of which one element each is used.
TEST_F(Traffic, OfSumsAcrossRowsThatTheCacheDoesNotHoldIsALineForEachElement) {
  const Module module = *parse_hlo(R"(
HloModule m
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
ENTRY main {
  x = f32[4096,64] parameter(0)
  zero = f32[] constant(0)
  across = f32[64,4096] transpose(x), dimensions={1,0}
  ROOT sums = f32[64] reduce(across, zero), dimensions={1}, to_apply=add
})");
  const Kernel kernel = *lower_kernel(
      module, {{InstructionId{2}, InstructionId{3}}}, {{InstructionId{3}}});
  EXPECT_EQ(kernel_bytes(kernel), kX + 64 * 4);
  EXPECT_EQ(kernel_traffic(kernel), 16 * kX + 64 * 4);
}

}  // namespace
}  // namespace reprise
