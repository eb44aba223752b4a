#include "data/trace/intervals.h"

#include <gtest/gtest.h>

#include <random>

namespace reprise {
namespace {

TEST(IntervalSet, UnitesWhatTouchesAndDropsWhatIsEmpty) {
  const IntervalSet set({{5, 7}, {0, 2}, {2, 4}, {6, 9}, {3, 3}, {12, 11}});
  EXPECT_EQ(set.intervals(), (std::vector<Interval>{{0, 4}, {5, 9}}));
  EXPECT_EQ(set.length_ns(), 8);
}

TEST(IntervalSet, ClipsToAnyWindow) {
  const IntervalSet set({{0, 4}, {6, 9}});
  EXPECT_EQ(set.length_within_ns(2, 7), 3);    // [2,4) and [6,7).
  EXPECT_EQ(set.length_within_ns(4, 6), 0);    // Between the two.
  EXPECT_EQ(set.length_within_ns(-9, 99), 7);  // Both whole.
  EXPECT_EQ(set.length_within_ns(7, 2), 0);    // No window at all.
}

TEST(IntervalSet, TimesAtTheLimitsDoNotOverflow) {
  const IntervalSet set({{INT64_MIN, INT64_MAX}, {-1, 1}});
  EXPECT_EQ(set.length_ns(), 2 * kLatestTime);
  EXPECT_EQ(set.length_within_ns(INT64_MIN, INT64_MAX), 2 * kLatestTime);
  EXPECT_EQ(set.length_within_ns(-5, 5), 10);
  constexpr int64_t kHole = 1'000'000'000;
  const IntervalSet late({{INT64_MIN, 0}, {kHole, INT64_MAX}});
  EXPECT_EQ(late.length_within_ns(INT64_MIN, INT64_MAX),
            2 * kLatestTime - kHole);
}

// Against one flag per instant: all lengths and both operations.
TEST(IntervalSet, AgreesWithInstants) {
  constexpr int64_t kEnd = 60;
  std::mt19937 random(7);
  const auto some = [&] {
    std::vector<Interval> intervals;
    for (uint32_t i = random() % 8; i > 0; --i) {
      const auto start = static_cast<int64_t>(random() % kEnd);
      intervals.push_back({start, start + static_cast<int64_t>(random() % 9)});
    }
    return intervals;
  };
  const auto covers = [](const std::vector<Interval>& intervals, int64_t at) {
    for (const Interval& interval : intervals) {
      if (interval.start_ns <= at && at < interval.end_ns) return true;
    }
    return false;
  };
  for (int round = 0; round < 300; ++round) {
    const std::vector<Interval> a = some(), b = some();
    const IntervalSet either = united(IntervalSet(a), IntervalSet(b));
    const IntervalSet both = intersected(IntervalSet(a), IntervalSet(b));
    const auto start = static_cast<int64_t>(random() % kEnd);
    const auto end = static_cast<int64_t>(random() % kEnd);
    int64_t in_either = 0, in_both = 0;
    for (int64_t at = start; at < end; ++at) {
      in_either += covers(a, at) || covers(b, at) ? 1 : 0;
      in_both += covers(a, at) && covers(b, at) ? 1 : 0;
    }
    ASSERT_EQ(either.length_within_ns(start, end), in_either);
    ASSERT_EQ(both.length_within_ns(start, end), in_both);
  }
}

}  // namespace
}  // namespace reprise
