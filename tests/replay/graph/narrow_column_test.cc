// A narrow column holds what a plain vector holds, whatever is written when.
#include "replay/graph/narrow_column.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace reprise {
namespace {

using Column = NarrowColumn<int32_t, int8_t>;

int32_t some_value(std::mt19937& random, unsigned large_percent) {
  const auto small = static_cast<int32_t>(random() % 255) - 128;
  if (random() % 100 >= large_percent) return small;
  constexpr int32_t kLarge[] = {127,
                                128,
                                -129,
                                1'000'000,
                                std::numeric_limits<int32_t>::min(),
                                std::numeric_limits<int32_t>::max()};
  return kLarge[random() % std::size(kLarge)];
}

// Few large values stay in a map; many move to a second column.
class NarrowColumnTest : public testing::TestWithParam<unsigned> {};

TEST_P(NarrowColumnTest, HoldsWhatAVectorHolds) {
  std::mt19937 random(GetParam());
  Column column;
  std::vector<int32_t> plain;
  for (int i = 0; i < 60'000; ++i) {
    const int32_t value = some_value(random, GetParam());
    switch (plain.empty() ? 0 : random() % 8) {
      case 0:
      case 1:
      case 2:
        column.push_back(value);
        plain.push_back(value);
        break;
      case 3: {
        const size_t count = plain.size() + random() % 3;
        column.resize(count);
        plain.resize(count);
        break;
      }
      default: {
        const size_t at = random() % plain.size();
        column[at] = value;
        plain[at] = value;
      }
    }
    ASSERT_EQ(column.size(), plain.size());
    const size_t at = random() % plain.size();
    ASSERT_EQ(int32_t{column[at]}, plain[at]);
  }
  EXPECT_EQ(column.values(), plain);
  column.assign(3'000, 500);
  EXPECT_EQ(column.values(), std::vector<int32_t>(3'000, 500));
}

INSTANTIATE_TEST_SUITE_P(LargePercent, NarrowColumnTest,
                         testing::Values(0U, 1U, 20U, 100U));

}  // namespace
}  // namespace reprise
