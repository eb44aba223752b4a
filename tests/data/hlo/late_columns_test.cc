#include "data/hlo/late_columns.h"

#include <fmt/ranges.h>

#include "tests/data/hlo/hlo_text.h"

namespace reprise {
namespace {

constexpr const char* kNoted = "frontend_attributes={reprise_windows=\"late\"}";

/// The order of a window of an array of `type` and `extents`, whose header says
/// `notes`.
std::vector<int64_t> order_of(const std::string& notes, const std::string& type,
                              const std::vector<int64_t>& extents,
                              const std::vector<int64_t>& results,
                              const std::string& window) {
  const auto inlined = inline_calls(module_of(fmt::format(
      "HloModule m, {0}\nsum {{\n  a = {1}[] parameter(0)\n"
      "  b = {1}[] parameter(1)\n  ROOT c = {1}[] add(a, b)\n}}\n"
      "ENTRY e {{\n  x = {1}[{2}] parameter(0)\n  z = {1}[] constant(0)\n"
      "  ROOT r = {1}[{3}] reduce-window(x, z), window={{{4}}}, "
      "to_apply=sum\n}}",
      notes, type, fmt::join(extents, ","), fmt::join(results, ","), window)));
  EXPECT_TRUE(inlined.has_value()) << inlined.error().message;
  if (!inlined) return {};
  const Computation& entry = inlined->entry_computation();
  return window_order(entry.at(entry.root), extents);
}

const std::vector<int64_t> kByRows = {0, 1, 2, 3, 4, 5, 6, 7, 8};
constexpr const char* kPool = "size=3x3 stride=2x2 pad=0_1x0_1";

// As XLA:CPU of JAX 0.10.2 and 0.12 sums bf16 and f16.
TEST(LateColumns, TheLastColumnComesLastWhereItAloneReachesOut) {
  for (const char* type : {"bf16", "f16"}) {
    EXPECT_EQ(order_of(kNoted, type, {8, 8}, {4, 4}, kPool),
              (std::vector<int64_t>{0, 1, 3, 4, 6, 7, 2, 5, 8}));
  }
  EXPECT_EQ(order_of(kNoted, "bf16", {8, 8}, {4, 4},
                     "size=3x2 stride=2x2 "
                     "pad=0_1x0_0"),
            (std::vector<int64_t>{0, 1, 2, 3, 4, 5}));  // The last row is last.
}

TEST(LateColumns, OneDimensionOfThreeIsSplit) {
  EXPECT_EQ(order_of(kNoted, "bf16", {6, 6, 6}, {6, 6, 6},
                     "size=2x2x2 pad=0_1x0_1x0_1"),
            (std::vector<int64_t>{0, 2, 4, 6, 1, 3, 5, 7}));
  EXPECT_EQ(order_of(kNoted, "bf16", {6, 6, 4}, {3, 3, 2},
                     "size=2x3x2 stride=2x2x2 pad=0_0x0_1x0_0"),
            (std::vector<int64_t>{0, 1, 2, 3, 6, 7, 8, 9, 4, 5, 10, 11}));
}

// JAX 0.10.2 and 0.12: pools of 2 x 2 with padding before the beginning, and
// gradients of sums over windows with base dilation.
TEST(LateColumns, OfTwoColumnsOneComesLastWhereverOneReachesOut) {
  const std::vector<int64_t> by_columns = {0, 2, 1, 3};
  EXPECT_EQ(order_of(kNoted, "bf16", {9, 6}, {9, 6}, "size=2x2 pad=1_0x1_0"),
            by_columns);
  EXPECT_EQ(order_of(kNoted, "bf16", {9, 6}, {5, 4},
                     "size=2x2 stride=2x2 pad=1_1x1_1"),
            by_columns);
  EXPECT_EQ(order_of(kNoted, "bf16", {9, 5}, {5, 5},
                     "size=3x2 stride=2x1 pad=1_1x1_0"),
            (std::vector<int64_t>{0, 2, 4, 1, 3, 5}));
}

TEST(LateColumns, NoDimensionIsSplitBeforeSixtyFourElements) {
  const auto order_before = [](int64_t inner) {
    return order_of(kNoted, "bf16", {4, 6, inner}, {3, 6, 1},
                    fmt::format("size=2x2x{} pad=0_0x1_0x0_0", inner));
  };
  EXPECT_EQ(order_before(63)[63], 2 * 63);
  EXPECT_EQ(order_before(64)[64], 64);
}

// Each stays row by row in JAX 0.10.2.
TEST(LateColumns, OtherWindowsGoRowByRow) {
  EXPECT_EQ(order_of(kNoted, "bf16", {8, 8}, {8, 8}, "size=3x3 pad=1_1x1_1"),
            kByRows);  // Before the beginning, too.
  EXPECT_EQ(order_of(kNoted, "bf16", {8, 8}, {8, 8}, "size=3x3 pad=0_2x0_2"),
            kByRows);  // Two columns.
  EXPECT_EQ(order_of(kNoted, "bf16", {9, 9}, {4, 4}, "size=3x3 stride=2x2"),
            kByRows);  // None.
  EXPECT_EQ(order_of(kNoted, "f32", {8, 8}, {4, 4}, kPool), kByRows);
  EXPECT_EQ(order_of("is_scheduled=true", "bf16", {8, 8}, {4, 4}, kPool),
            kByRows);
}

}  // namespace
}  // namespace reprise
