#include "replay/analysis/idle_causes.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/replay/analysis/analysis_trace.h"

namespace reprise {
namespace {

IdleCauses causes_of(Trace& trace) {
  const RankWork work = device_work(trace, 0);
  const Breakdown whole = DeviceUnions(work.events).whole();
  return DeviceGaps(work).within(whole.window_start_ns,
                                 whole.window_start_ns + whole.window_ns);
}

struct Idle : testing::Test {
  AnalysisTrace builder;
  uint32_t host = builder.host_thread(0);
  uint32_t compute = builder.device_stream(0, "stream 7");
  uint32_t other = builder.device_stream(0, "stream 20");
};

TEST_F(Idle, LaunchedAfterTheDeviceWentIdleIsTheHostsFault) {
  builder.kernel(host, 0, compute, "a", 5, 10);
  builder.kernel(host, 12, compute, "b", 15, 20);
  EXPECT_EQ(causes_of(builder.trace())[IdleCause::kHost], 5);  // 10-15.
}

// Launches onto the idle device take 3; the last work is launched 2 after the
// device fell idle and starts 60 later: it waited for something else.
TEST_F(Idle, WhatWasLaunchedLongBeforeItRanIsNotTheHostsFault) {
  builder.kernel(host, 0, compute, "a", 5, 10);
  builder.kernel(host, 12, compute, "b", 15, 20);
  builder.kernel(host, 25, compute, "c", 28, 30);
  builder.kernel(host, 32, compute, "d", 92, 99);
  const IdleCauses causes = causes_of(builder.trace());
  EXPECT_EQ(causes[IdleCause::kHost], 5 + 8 + 2 + 3);
  EXPECT_EQ(causes[IdleCause::kLaunch], 57);
}

TEST_F(Idle, AHostThatWaitedForTheDeviceIsToldApart) {
  builder.kernel(host, 0, compute, "a", 5, 10);
  builder.add(host, EventKind::kRuntime, "cudaStreamSynchronize", 3, 11);
  builder.kernel(host, 12, compute, "b", 15, 20);
  const IdleCauses causes = causes_of(builder.trace());
  EXPECT_EQ(causes[IdleCause::kSynchronized], 5);
  EXPECT_EQ(causes.host_bound_ns(), 5);
}

TEST_F(Idle, QueuedBehindItsOwnStreamIsLaunchLatency) {
  builder.kernel(host, 0, compute, "a", 5, 10);
  builder.kernel(host, 2, compute, "b", 12, 20);
  EXPECT_EQ(causes_of(builder.trace())[IdleCause::kLaunch], 2);
}

TEST_F(Idle, QueuedBehindAnotherStreamIsAWaitForIt) {
  builder.kernel(host, 0, other, "nccl", 5, 10, EventKind::kCollective);
  builder.kernel(host, 2, compute, "a", 12, 20);
  builder.kernel(host, 4, other, "nccl", 23, 30, EventKind::kCollective);
  const IdleCauses causes = causes_of(builder.trace());
  EXPECT_EQ(causes[IdleCause::kCollective], 2);  // 10-12, after nccl.
  EXPECT_EQ(causes[IdleCause::kKernel], 3);      // 20-23, after a.
}

TEST_F(Idle, WithoutALaunchNothingIsClaimed) {
  builder.kernel(host, 0, compute, "a", 5, 10);
  builder.add(compute, EventKind::kCompute, "b", 14, 20);
  EXPECT_EQ(causes_of(builder.trace())[IdleCause::kUnknown], 4);
}

TEST_F(Idle, AStreamsGapIsDivided) {
  // Stream 7: a 5-10, b 30-40 launched at 14. Stream 20: nccl 12-20, copy
  // 20-24. The gap 10-30: host until 14, then nccl until 20, copy until 24,
  // launch until 30.
  builder.kernel(host, 0, compute, "a", 5, 10);
  builder.kernel(host, 1, other, "nccl", 12, 20, EventKind::kCollective);
  builder.kernel(host, 3, other, "copy", 20, 24, EventKind::kCopy);
  builder.kernel(host, 14, compute, "b", 30, 40);
  const RankWork work = device_work(builder.trace(), 0);
  const DeviceUnions unions(work.events);
  const std::vector<StreamIdle> streams = stream_idle(work, unions, 5, 40);
  ASSERT_EQ(streams.size(), 2u);
  EXPECT_EQ(streams[0].events, 2);
  EXPECT_EQ(streams[0].busy_ns, 15);
  EXPECT_EQ(streams[0].idle[IdleCause::kHost], 4);
  EXPECT_EQ(streams[0].idle[IdleCause::kCollective], 6);
  EXPECT_EQ(streams[0].idle[IdleCause::kKernel], 4);
  EXPECT_EQ(streams[0].idle[IdleCause::kLaunch], 6);
}

// On random work every window's causes sum to its idle time, and every
// stream's busy and idle time to the window.
TEST(IdleCauses, SumToTheIdleTimeOfAnyWindow) {
  std::mt19937 random(11);
  const auto below = [&](uint32_t limit) {
    return static_cast<int64_t>(random() % limit);
  };
  for (int round = 0; round < 100; ++round) {
    AnalysisTrace builder;
    const uint32_t host = builder.host_thread(0);
    const uint32_t streams[] = {builder.device_stream(0),
                                builder.device_stream(0)};
    for (int64_t i = below(20); i >= 0; --i) {
      const int64_t start = below(100);
      const auto kind =
          random() % 2 == 0 ? EventKind::kCompute : EventKind::kCollective;
      if (random() % 4 == 0) {
        builder.add(streams[random() % 2], kind, "k", start, start + below(12));
      } else {
        builder.kernel(host, below(100), streams[random() % 2], "k", start,
                       start + below(12), kind);
      }
    }
    const RankWork work = device_work(builder.trace(), 0);
    const DeviceUnions unions(work.events);
    const DeviceGaps gaps(work);
    for (int window = 0; window < 20; ++window) {
      const int64_t start = below(120) - 10, end = start + below(60);
      ASSERT_EQ(gaps.within(start, end).total_ns(),
                unions.within(start, end).idle_ns);
      for (const StreamIdle& stream : stream_idle(work, unions, start, end)) {
        ASSERT_EQ(stream.busy_ns + stream.idle.total_ns(), end - start);
        for (const int64_t part : stream.idle.by_cause_ns) ASSERT_GE(part, 0);
      }
    }
  }
}

}  // namespace
}  // namespace reprise
