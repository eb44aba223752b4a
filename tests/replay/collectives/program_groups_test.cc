#include "replay/collectives/program_groups.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "replay/collectives/collectives.h"
#include "tests/replay/collectives/collective_text.h"

namespace reprise {
namespace {

/// Two all-reduces of each rank, of which those of `early` end 500 us before
/// the others begin theirs.
Trace step_of(const std::string& groups, const std::vector<uint32_t>& early) {
  std::string text;
  for (uint32_t rank = 0; rank < 4; ++rank) {
    const bool is_early =
        std::find(early.begin(), early.end(), rank) != early.end();
    for (const int64_t call : {0, 1}) {
      const int64_t start_ns =
          2'000'000 * call + (is_early ? 0 : 600'000) + 1000 * rank;
      text += fmt::format(
          "{} collective d7 {} {} psum.3 op=all-reduce comm={} size=2 "
          "bytes=64\n",
          rank, start_ns, start_ns + 100'000, groups);
    }
  }
  return collective_trace(text);
}

std::vector<std::vector<uint32_t>> members(const Trace& trace) {
  std::vector<std::vector<uint32_t>> all;
  for (const MatchedCollective& one : match_collectives(trace).collectives) {
    all.push_back(one.group);
    EXPECT_EQ(one.members.size(), 2U);
    EXPECT_EQ(one.group_size, 2);
  }
  return all;
}

using Groups = std::vector<std::vector<uint32_t>>;

TEST(ProgramGroups, DevicesAreRanksInOrder) {
  EXPECT_EQ(members(step_of("devices:{0,1},{2,3}", {0, 1})),
            (Groups{{0, 1}, {2, 3}, {0, 1}, {2, 3}}));
  EXPECT_EQ(members(step_of("devices:{0,2},{1,3}", {0, 2})),
            (Groups{{0, 2}, {1, 3}, {0, 2}, {1, 3}}));
}

/// Rank 0 left each call 500 us before rank 2 came: they are not one.
TEST(ProgramGroups, HoldNoRanksThatLeaveBeforeOthersCome) {
  const CollectiveMatching found =
      match_collectives(step_of("devices:{0,2},{1,3}", {0, 1}));
  EXPECT_TRUE(found.collectives.empty());
  ASSERT_EQ(found.notes.size(), 2U);
  EXPECT_TRUE(found.notes[0].starts_with(
      "8 collectives are not of the groups that the program states"))
      << found.notes[0];
  EXPECT_NE(found.notes[1].find("could not be matched"), std::string::npos)
      << found.notes[1];
}

/// One of five devices has no profile: which, nobody says.
TEST(ProgramGroups, OverHostsAreNotToldWhereOneIsMissing) {
  Trace trace = step_of("devices:{0,1},{2,3},{4}", {0, 1});
  EXPECT_EQ(match_collectives(trace).collectives.size(), 4U);
  for (RankInfo& rank : trace.ranks) rank.host = std::to_string(rank.rank);
  const CollectiveMatching found = match_collectives(trace);
  EXPECT_TRUE(found.collectives.empty());
  ASSERT_FALSE(found.notes.empty());
  EXPECT_TRUE(found.notes[0].ends_with("profile every host."))
      << found.notes[0];
}

}  // namespace
}  // namespace reprise
