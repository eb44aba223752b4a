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

}  // namespace
}  // namespace reprise
