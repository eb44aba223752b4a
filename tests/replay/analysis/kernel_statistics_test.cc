#include "replay/analysis/kernel_statistics.h"

#include <gtest/gtest.h>

#include "tests/replay/analysis/analysis_trace.h"

namespace reprise {
namespace {

std::vector<KernelStatistics> statistics(const Trace& trace, uint32_t ranks,
                                         const WorkScope& scope) {
  KernelDurations durations;
  for (uint32_t rank = 0; rank < ranks; ++rank)
    durations.add(trace, device_work(trace, rank), scope);
  return std::move(durations).statistics(trace);
}

TEST(KernelStatistics, SumsByNameOverRanks) {
  AnalysisTrace builder;
  for (const uint32_t rank : {0u, 1u}) {
    const uint32_t host = builder.host_thread(rank);
    const uint32_t device = builder.device_stream(rank);
    for (int64_t i = 0; i < 10; ++i) {
      builder.kernel(host, 100 * i, device, "gemm", 100 * i + 5,
                     100 * i + 6 + i);
    }
    builder.kernel(host, 2000, device, "add", 2005, 2008);
  }
  Trace& trace = builder.trace();
  const auto kernels = statistics(trace, 2, {});
  ASSERT_EQ(kernels.size(), 2u);
  // Twice 1, 2 … 10: 110 in all. Of 20 values sorted, place 19 * 50 / 100 = 9
  // holds 5 and place 19 * 95 / 100 = 18 holds 10.
  EXPECT_EQ(trace.text(kernels[0].name), "gemm");
  EXPECT_EQ(kernels[0].count, 20);
  EXPECT_EQ(kernels[0].total_ns, 110);
  EXPECT_EQ(kernels[0].median_ns, 5);
  EXPECT_EQ(kernels[0].p95_ns, 10);
  EXPECT_EQ(kernels[0].longest_ns, 10);
  EXPECT_EQ(kernels[1].total_ns, 6);
}

TEST(KernelStatistics, AStepHoldsWhatItLaunched) {
  AnalysisTrace builder;
  const uint32_t host = builder.host_thread(0);
  const uint32_t device = builder.device_stream(0);
  builder.step(0, 4, 0, 10);
  builder.step(0, 5, 10, 20);
  builder.kernel(host, 9, device, "late", 12, 13);  // Runs in the next step.
  builder.add(device, EventKind::kCompute, "lost", 15, 16);  // No launch.
  Trace& trace = builder.trace();
  const auto first = statistics(trace, 1, {.step = 4});
  const auto second = statistics(trace, 1, {.step = 5});
  ASSERT_EQ(first.size(), 1u);
  ASSERT_EQ(second.size(), 1u);
  EXPECT_EQ(trace.text(first[0].name), "late");
  EXPECT_EQ(trace.text(second[0].name), "lost");
}

// On an H100 a dot of 8 us led the table with 66 %: its first launch, before
// the steps, had loaded its code for 10 ms.
TEST(KernelStatistics, LeaveOutWhatRanToWarmUp) {
  AnalysisTrace builder;
  const uint32_t host = builder.host_thread(0);
  const uint32_t device = builder.device_stream(0);
  builder.step(0, 0, 100, 200);
  builder.trace().steps.back().warmup = true;
  builder.step(0, 1, 200, 300);
  builder.kernel(host, 10, device, "dot", 20, 90);
  builder.kernel(host, 110, device, "dot", 120, 180);
  builder.kernel(host, 210, device, "dot", 220, 228);
  builder.kernel(host, 305, device, "dot", 310, 318);  // After the steps.
  const auto kernels = statistics(builder.trace(), 1, {});
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_EQ(kernels[0].count, 2);
  EXPECT_EQ(kernels[0].total_ns, 16);
  EXPECT_EQ(launch_statistics(device_work(builder.trace(), 0), {}).works, 2);
  // Where all that is marked warms up, it is all there is.
  builder.trace().steps.back().warmup = true;
  EXPECT_EQ(statistics(builder.trace(), 1, {})[0].count, 4);
}

TEST(LaunchStatistics, CountsDelaysTinyWorkAndTheQueue) {
  AnalysisTrace builder;
  const uint32_t host = builder.host_thread(0);
  const uint32_t device = builder.device_stream(0);
  // Launched at 0, 1000, 2000 and all queued until 3000.
  builder.kernel(host, 0, device, "a", 3000, 8000);
  builder.kernel(host, 1000, device, "b", 8000, 40'000);
  builder.add(host, EventKind::kRuntime, "cudaGraphLaunch", 2000, 2010, 900);
  builder.add(device, EventKind::kCompute, "c", 40'000, 41'000, 900);
  builder.add(device, EventKind::kCompute, "d", 41'000, 42'000, 900);
  builder.add(device, EventKind::kCompute, "e", 42'000, 43'000);
  const LaunchStatistics launches =
      launch_statistics(device_work(builder.trace(), 0), {});
  EXPECT_EQ(launches.works, 5);
  EXPECT_EQ(launches.launches, 3);
  EXPECT_EQ(launches.most_per_launch, 2);
  EXPECT_EQ(launches.without_launch, 1);
  EXPECT_EQ(launches.tiny, 4);  // All but b.
  EXPECT_EQ(launches.tiny_ns, 8000);
  EXPECT_EQ(launches.total_ns, 40'000);
  // Delays 3000, 7000, 38000, 39000.
  EXPECT_EQ(launches.delay_ns.least, 3000);
  EXPECT_EQ(launches.delay_ns.median, 7000);
  EXPECT_EQ(launches.delay_ns.most, 39'000);
  EXPECT_EQ(launches.deepest_queue, 4);
  // 87000 ns of queueing over the 42000 ns from first launch to last end.
  EXPECT_DOUBLE_EQ(launches.mean_queue_depth, 87.0 / 42.0);
}

}  // namespace
}  // namespace reprise
