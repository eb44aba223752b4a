#include "replay/analysis/trace_diff.h"

#include <gtest/gtest.h>

#include "tests/replay/analysis/analysis_trace.h"

namespace reprise {
namespace {

/// Steps of 100 ns with a product of 40 ns each, and a reduction of 20 ns in
/// those of `reduced`.
Trace run(int steps, const std::vector<int>& reduced, bool marks = true) {
  AnalysisTrace build;
  const uint32_t host = build.host_thread(0);
  const uint32_t device = build.device_stream(0);
  for (int i = 0; i < steps; ++i) {
    const int64_t at = i * 100;
    if (marks) build.step(0, i, at, at + 100);
    build.kernel(host, at, device, "mm", at + 10, at + 50);
    if (std::count(reduced.begin(), reduced.end(), i) > 0)
      build.kernel(host, at + 50, device, "reduce", at + 60, at + 80);
  }
  return build.trace();
}

TEST(TraceDiff, AStepAgainstAWholeRecordingIsNoComparison) {
  const auto diff = diff_traces(run(3, {}), run(3, {}, false), DiffKey::kOp);
  ASSERT_TRUE(diff) << diff.error().message;
  EXPECT_FALSE(diff->comparable());
  ASSERT_EQ(diff->remarks().size(), 1U);
  EXPECT_TRUE(diff->remarks()[0].starts_with(
      "the trace before marks 3 steps, the one after none"))
      << diff->remarks()[0];
  const auto same = diff_traces(run(3, {}), run(4, {}), DiffKey::kOp);
  ASSERT_TRUE(same);
  EXPECT_TRUE(same->comparable());
  EXPECT_TRUE(same->remarks().empty());
}

// Their marks leave 30 of each 130 out, as a loop that loads data does.
TEST(TraceDiff, WhatPassesBetweenStepsIsSaid) {
  AnalysisTrace build;
  const uint32_t host = build.host_thread(0);
  const uint32_t device = build.device_stream(0);
  for (int i = 0; i < 3; ++i) {
    const int64_t at = i * 130;
    build.step(0, i, at, at + 100);
    build.kernel(host, at, device, "mm", at + 10, at + 50);
  }
  const auto diff = diff_traces(run(3, {}), build.trace(), DiffKey::kOp);
  ASSERT_TRUE(diff) << diff.error().message;
  EXPECT_EQ(diff->step_change(), 0);
  EXPECT_EQ(diff->remarks(),
            (std::vector<std::string>{
                "from one step's end to the next one's begin pass 0 ns before, "
                "30 ns after, which counts in no step"}));
}

// Twice the steps are no slow-down of any.
TEST(TraceDiff, WholeRecordingsAreSaidToBeThat) {
  const auto diff =
      diff_traces(run(3, {}, false), run(6, {}, false), DiffKey::kOp);
  ASSERT_TRUE(diff) << diff.error().message;
  ASSERT_EQ(diff->remarks().size(), 1U);
  EXPECT_TRUE(diff->remarks()[0].starts_with("neither trace marks steps"));
}

TEST(TraceDiff, OtherNumbersOfRanksAreSaid) {
  AnalysisTrace build;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    const uint32_t host = build.host_thread(rank);
    build.step(rank, 0, 0, 100);
    build.kernel(host, 0, build.device_stream(rank), "mm", 10, 50);
  }
  const auto diff = diff_traces(run(1, {}), build.trace(), DiffKey::kOp);
  ASSERT_TRUE(diff) << diff.error().message;
  EXPECT_EQ(diff->remarks(),
            (std::vector<std::string>{"1 ranks before, 2 after: times and "
                                      "counts are means over ranks"}));
  EXPECT_EQ(diff->entries.front().after.time_ns, 40);
}

// Of 20 ns in one step of four the median is 0 and the mean 5, which is 5 % of
// a step.
TEST(TraceDiff, WhatOccursInSomeStepsHasNotDisappeared) {
  const auto diff =
      diff_traces(run(4, {0, 1, 2, 3}), run(4, {3}), DiffKey::kOp);
  ASSERT_TRUE(diff) << diff.error().message;
  const DiffEntry& entry = diff->entries.front();
  EXPECT_EQ(entry.key, "reduce");
  EXPECT_EQ(entry.before.time_ns, 20);
  EXPECT_FALSE(entry.before.is_occasional());
  EXPECT_EQ(entry.after.time_ns, 0);
  EXPECT_TRUE(entry.after.is_occasional());
  ASSERT_EQ(diff->remarks().size(), 1U);
  EXPECT_EQ(diff->remarks()[0],
            "after: reduce is in 1 of 4 steps, the median one has none; on "
            "average it takes 5 ns a step");
}

/// Three steps of 1000 ns on two ranks: a kernel of 100 ns, then an all-reduce
/// whose transfer takes 200. In `late` ones an operator of rank 1's host runs
/// 300 ns before its launches, of which it spends 50 in a call.
Trace of_two_ranks(bool late) {
  AnalysisTrace build;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    const uint32_t host = build.host_thread(rank);
    const uint32_t device = build.device_stream(rank);
    for (int i = 0; i < 3; ++i) {
      const int64_t at = i * 1000, more = late ? 300 : 0;
      const int64_t own = rank == 1 ? more : 0;
      build.step(rank, i, at, at + 990);
      if (own > 0) {
        build.add(host, EventKind::kHostOp, "slowprep", at, at + own);
        build.add(host, EventKind::kRuntime, "cudaMalloc", at + 10, at + 60);
      }
      build.kernel(host, at + own, device, "mm", at + own + 10, at + own + 110);
      build.kernel(host, at + own + 5, device, "all_reduce", at + own + 110,
                   at + more + 310, EventKind::kCollective);
    }
  }
  Trace& trace = build.trace();
  trace.collectives.push_back({.kind = CollectiveKind::kAllReduce});
  for (Event& event : trace.events) {
    if (event.kind == EventKind::kCollective) event.detail = 0;
  }
  return trace;
}

// Rank 0 waits 300 ns: 150 in the mean of both.
TEST(TraceDiff, TellsWaitingForALateRankFromATransfer) {
  const auto diff =
      diff_traces(of_two_ranks(false), of_two_ranks(true), DiffKey::kOp);
  ASSERT_TRUE(diff) << diff.error().message;
  const DiffEntry& entry = diff->entries.front();
  EXPECT_EQ(entry.key, "all_reduce");
  EXPECT_EQ(entry.change_ns(), 150);
  EXPECT_EQ(entry.before.wait_ns, 0);
  EXPECT_EQ(entry.after.wait_ns, 150);
  EXPECT_TRUE(entry.is_of_waiting());
  ASSERT_EQ(diff->remarks().size(), 1U);
  EXPECT_EQ(diff->remarks()[0],
            "all_reduce: +150 ns is +150 ns of waiting for the last rank to "
            "come and 0 ns of transfer; after, rank 1 comes last to 3 of 3 "
            "collectives: `reprise analyze` of that trace says what makes it "
            "late");
}

TEST(TraceDiff, NamesTheHostOperatorThatIsNew) {
  const auto diff =
      diff_traces(of_two_ranks(false), of_two_ranks(true), DiffKey::kOp);
  ASSERT_TRUE(diff) << diff.error().message;
  ASSERT_EQ(diff->host.size(), 1U);
  EXPECT_EQ(diff->host[0].rank, 1U);
  EXPECT_EQ(diff->host[0].entry.key, "slowprep");
  EXPECT_EQ(diff->host[0].entry.before.time_ns, 0);
  EXPECT_EQ(diff->host[0].entry.after.time_ns, 250);
  const auto same =
      diff_traces(of_two_ranks(true), of_two_ranks(true), DiffKey::kOp);
  ASSERT_TRUE(same);
  EXPECT_TRUE(same->host.empty());
  EXPECT_TRUE(same->remarks().empty());
}

}  // namespace
}  // namespace reprise
