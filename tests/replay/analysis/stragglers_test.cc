#include "replay/analysis/stragglers.h"

#include <gtest/gtest.h>

namespace reprise {
namespace {

// Three ranks, three collectives. Waits by rank:
//   c0: 10 7 0   rank 2 last, 7 after rank 1; it makes the others wait 17.
//   c1:  0 4 9   rank 0 last, 4 after rank 1; 13.
//   c2:  2 - 0   ranks 0 and 2 only: rank 2 last, by 2.
struct Stragglers : testing::Test {
  Stragglers() {
    trace.ranks.resize(3);
    for (uint32_t rank = 0; rank < 3; ++rank) trace.ranks[rank].rank = rank;
    add({0, 1, 2}, {10, 7, 0});
    add({0, 1, 2}, {0, 4, 9});
    add({0, 2}, {2, 0});
    add({1}, {0});  // Alone: nobody waits.
  }
  void add(const std::vector<uint32_t>& ranks, std::vector<int64_t> wait_ns) {
    MatchedCollective collective;
    for (const uint32_t rank : ranks) collective.members.push_back({rank, 0});
    chosen.push_back(static_cast<uint32_t>(chosen.size()));
    matching.collectives.push_back(collective);
    CollectiveTimes time;
    time.wait_ns = std::move(wait_ns);
    times.push_back(time);
  }
  Trace trace;
  CollectiveMatching matching;
  std::vector<CollectiveTimes> times;
  std::vector<uint32_t> chosen;
};

TEST_F(Stragglers, CountWhoCameLastAndByHowMuch) {
  const auto found = find_stragglers(trace, matching, times, chosen);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].rank, 2u);
  EXPECT_EQ(found[0].late_ns, 9);
  EXPECT_EQ(found[0].last, 2);
  EXPECT_EQ(found[0].collectives, 3);
  EXPECT_EQ(found[0].imposed_ns, 19);
  EXPECT_EQ(found[0].waited_ns, 9);
  EXPECT_EQ(found[1].rank, 0u);
  EXPECT_EQ(found[1].late_ns, 4);
  EXPECT_EQ(found[2].rank, 1u);
  EXPECT_EQ(found[2].last, 0);
  EXPECT_EQ(found[2].waited_ns, 11);
}

TEST_F(Stragglers, WhatTheClocksCannotTellIsNobodysFault) {
  trace.ranks[2].clock_residual_ns = 5;
  const auto found = find_stragglers(trace, matching, times, chosen);
  EXPECT_EQ(found[0].rank, 2u);
  EXPECT_EQ(found[0].late_ns, 7);  // c2's 2 are within the doubt.
  EXPECT_EQ(found[0].last, 1);
}

TEST_F(Stragglers, WhoAwaitsAMessageWaitsForWorkAndNotForALateRank) {
  add({0, 1}, {0, 100});
  matching.collectives.back().kind = CollectiveKind::kSend;
  const auto found = find_stragglers(trace, matching, times, chosen);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[1].rank, 0u);
  EXPECT_EQ(found[1].late_ns, 4);
  EXPECT_EQ(found[1].collectives, 3);
}

// Rank 1 waits for rank 0, and so comes later than rank 2 to their collective
// and to that of all.
TEST_F(Stragglers, WhoWaitedElsewherePassesOnWhatAnotherIsLate) {
  chosen.clear();
  matching = {};
  times.clear();
  add({0, 1}, {0, 3});
  add({1, 2}, {0, 4});
  add({0, 1, 2}, {2, 0, 1});
  const auto found = find_stragglers(trace, matching, times, chosen);
  EXPECT_EQ(found[0].rank, 0u);
  EXPECT_EQ(found[0].late_ns, 3);
  EXPECT_EQ(found[0].passed_on_ns, 0);
  EXPECT_EQ(found[1].rank, 1u);
  EXPECT_EQ(found[1].late_ns, 5);
  EXPECT_EQ(found[1].passed_on_ns, 3);
}

TEST_F(Stragglers, OnlyChosenCollectivesCount) {
  const std::vector<uint32_t> second = {1};
  const auto found = find_stragglers(trace, matching, times, second);
  EXPECT_EQ(found[0].rank, 0u);
  EXPECT_EQ(found[0].collectives, 1);
}

}  // namespace
}  // namespace reprise
