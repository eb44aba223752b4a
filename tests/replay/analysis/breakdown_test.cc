#include "replay/analysis/breakdown.h"

#include <gtest/gtest.h>

#include "replay/analysis/idle_causes.h"
#include "tests/replay/analysis/analysis_trace.h"

namespace reprise {
namespace {

// Device, in units of time (launches in brackets, steps below):
//   stream 7    a[2] 10-20        b[22] 30-40
//   stream 20   nccl[3] 15-35 (communication)
//   stream 7    copy[4] 40-50
//   steps       0: 0-21           1: 21-60
AnalysisTrace two_streams() {
  AnalysisTrace builder;
  const uint32_t host = builder.host_thread(0);
  const uint32_t compute = builder.device_stream(0, "stream 7");
  const uint32_t communication = builder.device_stream(0, "stream 20");
  builder.kernel(host, 2, compute, "a", 10, 20);
  builder.kernel(host, 22, compute, "b", 30, 40);
  builder.kernel(host, 3, communication, "nccl", 15, 35,
                 EventKind::kCollective);
  builder.kernel(host, 4, compute, "copy", 40, 50, EventKind::kCopy);
  builder.add(host, EventKind::kHostOp, "aten::add", 0, 60);
  builder.step(0, 0, 0, 21);
  builder.step(0, 1, 21, 60);
  return builder;
}

TEST(Breakdown, TheWholeIsTheSpanOfTheDeviceWork) {
  AnalysisTrace builder = two_streams();
  const Breakdown whole = break_down(builder.trace(), 0);
  // Span 10-50. Compute 10-20 and 30-40; communication 15-35, of it 15-20 and
  // 30-35 beside compute; memory 40-50; always something running.
  const Breakdown expected{
      .window_start_ns = 10,
      .window_ns = 40,
      .compute_ns = 20,
      .communication_ns = 20,
      .memory_ns = 10,
      .overlapped_ns = 10,
      .exposed_ns = 10,
      .idle_ns = 0,
      .exclusive = {.compute_ns = 20, .exposed_ns = 10, .memory_ns = 10}};
  EXPECT_EQ(whole, expected);
}

TEST(Breakdown, AStepClipsToTheHostsWindow) {
  AnalysisTrace builder = two_streams();
  // [0, 21): idle 0-10, compute 10-20, communication 15-21.
  const Breakdown step = break_down(builder.trace(), 0, 0, 21);
  const Breakdown expected{
      .window_ns = 21,
      .compute_ns = 10,
      .communication_ns = 6,
      .overlapped_ns = 5,
      .exposed_ns = 1,
      .idle_ns = 10,
      .exclusive = {.compute_ns = 10, .exposed_ns = 1, .idle_ns = 10}};
  EXPECT_EQ(step, expected);
}

TEST(Breakdown, LaunchedWorkCountsWhereverItRan) {
  AnalysisTrace builder = two_streams();
  const auto steps = break_down_launched(device_work(builder.trace(), 0));
  ASSERT_EQ(steps.size(), 2u);
  // Step 0 launched all but b: span 10-50, compute 10-20, nccl 15-35, copy.
  EXPECT_EQ(steps[0].window_start_ns, 10);
  EXPECT_EQ(steps[0].window_ns, 40);
  EXPECT_EQ(steps[0].compute_ns, 10);
  EXPECT_EQ(steps[0].exposed_ns, 15);
  EXPECT_EQ(steps[0].idle_ns, 5);  // 35-40: b is the other step's.
  EXPECT_EQ(steps[1].window_start_ns, 30);
  EXPECT_EQ(steps[1].window_ns, 10);
  EXPECT_EQ(steps[1].compute_ns, 10);
}

TEST(Breakdown, CopiesHideNothingButKeepTheDeviceBusy) {
  AnalysisTrace builder;
  const uint32_t host = builder.host_thread(0);
  const uint32_t one = builder.device_stream(0), two = builder.device_stream(0);
  builder.kernel(host, 0, one, "copy", 0, 10, EventKind::kCopy);
  builder.kernel(host, 1, two, "nccl", 5, 15, EventKind::kCollective);
  const Breakdown whole = break_down(builder.trace(), 0);
  EXPECT_EQ(whole.exposed_ns, 10);
  EXPECT_EQ(whole.idle_ns, 0);
  EXPECT_EQ(whole.exclusive.memory_ns, 5);  // 0-5: exposed comes before.
}

TEST(Breakdown, ExclusivePartsSumToAnyWindow) {
  AnalysisTrace builder = two_streams();
  const DeviceUnions unions(device_work(builder.trace(), 0).events);
  for (int64_t start = 0; start < 60; ++start) {
    for (int64_t end = start; end < 60; ++end) {
      const Breakdown part = unions.within(start, end);
      const Breakdown::Exclusive& sum = part.exclusive;
      ASSERT_EQ(sum.compute_ns + sum.exposed_ns + sum.memory_ns + sum.idle_ns,
                part.window_ns);
    }
  }
}

TEST(DeviceWork, WithoutADeviceOperatorsComputeAndHostCollectivesCommunicate) {
  AnalysisTrace builder;
  const uint32_t main = builder.host_thread(0, "main");
  const uint32_t gloo = builder.host_thread(0, "gloo");
  builder.add(main, EventKind::kHostOp, "outer", 0, 10);
  builder.add(main, EventKind::kHostOp, "inner", 0, 4);
  builder.add(gloo, EventKind::kCollective, "gloo:all_reduce", 8, 15);
  const RankWork work = device_work(builder.trace(), 0);
  EXPECT_TRUE(work.host_only);
  const Breakdown whole = DeviceUnions(work.events).whole();
  EXPECT_EQ(whole.compute_ns, 10);
  EXPECT_EQ(whole.exposed_ns, 5);
  // The outer operator itself took what the inner one did not.
  int64_t own_ns = 0;
  for (const DeviceEvent& event : work.events) {
    if (event.work == WorkClass::kCompute) own_ns += event.own_ns;
  }
  EXPECT_EQ(own_ns, 10);
}

TEST(DeviceWork, WhatOperatorsWaitIsNoComputing) {
  // The main thread computes for 100 us, then waits for the collective that the
  // worker runs from 60 us to 500: 400 are exposed, and 40 hidden. Of the
  // worker's own copy within it nothing is computing.
  AnalysisTrace builder;
  const uint32_t main = builder.host_thread(0, "main");
  const uint32_t gloo = builder.host_thread(0, "gloo");
  builder.add(main, EventKind::kHostOp, "aten::mm", 0, 100'000);
  builder.add(main, EventKind::kHostOp, "_c10d_functional::wait_tensor",
              100'000, 510'000);
  builder.add(gloo, EventKind::kCollective, "gloo:all_reduce", 60'000, 500'000);
  builder.add(gloo, EventKind::kHostOp, "aten::copy_", 70'000, 90'000);
  const RankWork work = device_work(builder.trace(), 0);
  const Breakdown whole = DeviceUnions(work).whole();
  EXPECT_EQ(whole.compute_ns, 100'000);
  EXPECT_EQ(whole.exposed_ns, 400'000);
  EXPECT_EQ(whole.overlapped_ns, 40'000);
  EXPECT_EQ(whole.idle_ns, 10'000);
  EXPECT_EQ(DeviceGaps(work).within(0, 510'000)[IdleCause::kHost], 10'000);
  ASSERT_EQ(work.events.size(), 3U);
  EXPECT_EQ(work.events[2].own_ns, 0);
  const std::vector<StreamIdle> threads =
      stream_idle(work, DeviceUnions(work), 0, 510'000);
  ASSERT_EQ(threads.size(), 2U);
  EXPECT_EQ(threads[0].busy_ns, 100'000);
  EXPECT_EQ(threads[0].idle[IdleCause::kHost], 410'000);
}

TEST(DeviceWork, ACollectiveOfTheCallingThreadIsNoComputing) {
  AnalysisTrace builder;
  const uint32_t main = builder.host_thread(0, "main");
  builder.add(main, EventKind::kHostOp, "ThunkExecutor::Execute", 0, 100);
  builder.add(main, EventKind::kCollective, "all-reduce.4", 20, 90);
  const RankWork work = device_work(builder.trace(), 0);
  const Breakdown whole = DeviceUnions(work).whole();
  EXPECT_EQ(whole.compute_ns, 30);
  EXPECT_EQ(whole.exposed_ns, 70);
  EXPECT_EQ(work.events[0].own_ns, 30);
}

TEST(DeviceWork, AThreadComputesBesideTheMessageThatItPosted) {
  // From 100 us to 700 of the 800 that the message takes; 50 us of its call are
  // the thread's own, too.
  AnalysisTrace builder;
  const uint32_t main = builder.host_thread(0, "main");
  CollectiveInfo send;
  send.kind = CollectiveKind::kSend;
  builder.trace().collectives.push_back(send);
  builder.add(main, EventKind::kHostOp, "c10d::send", 0, 50'000);
  builder.add(main, EventKind::kCollective, "gloo:send", 0, 800'000);
  builder.trace().events.back().detail = 0;
  builder.add(main, EventKind::kHostOp, "aten::mm", 100'000, 700'000);
  const RankWork work = device_work(builder.trace(), 0);
  const Breakdown whole = DeviceUnions(work).whole();
  EXPECT_EQ(whole.compute_ns, 650'000);
  EXPECT_EQ(whole.exposed_ns, 150'000);
}

TEST(DeviceWork, HostCollectivesDoNotCountBesideThoseOfADevice) {
  AnalysisTrace builder;
  const uint32_t host = builder.host_thread(0);
  const uint32_t device = builder.device_stream(0);
  builder.add(host, EventKind::kCollective, "gloo:barrier", 0, 100);
  builder.kernel(host, 1, device, "nccl", 5, 10, EventKind::kCollective);
  EXPECT_EQ(break_down(builder.trace(), 0).communication_ns, 5);
}

TEST(DeviceWork, OneLaunchMayOwnManyKernels) {
  AnalysisTrace builder;
  const uint32_t host = builder.host_thread(0);
  const uint32_t device = builder.device_stream(0);
  builder.add(host, EventKind::kRuntime, "cudaGraphLaunch", 0, 2, 77);
  builder.add(device, EventKind::kCompute, "a", 5, 6, 77);
  builder.add(device, EventKind::kCompute, "b", 6, 9, 77);
  builder.add(device, EventKind::kCompute, "lost", 9, 11, 78);
  const RankWork work = device_work(builder.trace(), 0);
  ASSERT_EQ(work.events.size(), 3u);
  EXPECT_EQ(work.events[0].launch_ns, 0);
  EXPECT_EQ(work.events[1].launch_ns, 0);
  EXPECT_EQ(work.events[2].launch_ns, DeviceEvent::kNoLaunch);
}

TEST(Breakdown, NoWorkIsNoWindow) {
  AnalysisTrace builder;
  builder.host_thread(0);
  EXPECT_EQ(break_down(builder.trace(), 0), Breakdown{});
}

}  // namespace
}  // namespace reprise
