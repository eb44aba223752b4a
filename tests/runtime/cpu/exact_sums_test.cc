#include "runtime/cpu/exact_sums.h"

#include <gtest/gtest.h>

#include "tests/testing/parse_inlined.h"

namespace reprise {
namespace {

/// Of `ROOT d = dot(a, b)`, b as given and a of s8.
int64_t depth_with(const std::string& b) {
  const auto module = parse_inlined(
      "HloModule m\nENTRY e {\n  a = s8[2,4] parameter(0)\n"
      "  x = s8[4,2] parameter(1)\n  u = u8[4,2] parameter(2)\n"
      "  p = pred[4,2] parameter(3)\n  i = s32[4,2] parameter(4)\n" +
      b +
      "  ROOT d = s32[2,2] dot(a, b), lhs_contracting_dims={1}, "
      "rhs_contracting_dims={0}\n}\n");
  EXPECT_TRUE(module) << module.error().message;
  const Computation& entry = module->entry_computation();
  return exact_depth(entry, entry.at(entry.root));
}

TEST(ExactDepth, IsHowManyLargestProductsReach24Bits) {
  EXPECT_EQ(depth_with("  b = s8[4,2] copy(x)\n"), 1024);
  EXPECT_EQ(depth_with("  b = s32[4,2] convert(x)\n"), 1024);
  EXPECT_EQ(depth_with("  b = s32[4,2] convert(u)\n"), 514);
  EXPECT_EQ(depth_with("  b = u32[4,2] convert(u)\n"), 514);
  EXPECT_EQ(depth_with("  b = s32[4,2] convert(p)\n"), 131072);
  EXPECT_EQ(depth_with("  t = s8[2,4] transpose(x), dimensions={1,0}\n"
                       "  c = s64[2,4] convert(t)\n"
                       "  b = s64[4,2] transpose(c), dimensions={1,0}\n"),
            1024);
}

TEST(ExactDepth, IsNothingWhereValuesMayBeLarge) {
  EXPECT_EQ(depth_with("  b = s32[4,2] copy(i)\n"), 0);
  EXPECT_EQ(depth_with("  c = s32[4,2] convert(x)\n"
                       "  b = s32[4,2] add(c, c)\n"),
            0);
  // -1 becomes 2^32 - 1, which s64 keeps.
  EXPECT_EQ(depth_with("  b = u32[4,2] convert(x)\n"), 0);
  EXPECT_EQ(depth_with("  c = u32[4,2] convert(x)\n"
                       "  b = s64[4,2] convert(c)\n"),
            0);
}

}  // namespace
}  // namespace reprise
