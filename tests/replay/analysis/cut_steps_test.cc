#include "replay/analysis/cut_steps.h"

#include <gtest/gtest.h>

#include "replay/analysis/analysis.h"
#include "tests/replay/analysis/analysis_trace.h"

namespace reprise {
namespace {

// Steps of 1000 ns, each of 20 kernels of 40 ns that are launched one behind
// the other; of the last step the device's part ends after `recorded` kernels.
Trace cut_trace(int steps, int recorded) {
  AnalysisTrace made;
  const uint32_t host = made.host_thread(0), device = made.device_stream(0);
  for (int step = 0; step < steps; ++step) {
    const int64_t begin = 1000 * int64_t{step};
    made.step(0, step + 1, begin, begin + 1000);
    for (int at = 0; at < 20; ++at) {
      const int64_t launch = begin + 2 + 2 * at, start = begin + 100 + 45 * at;
      if (step + 1 < steps || at < recorded) {
        made.kernel(host, launch, device, "gemm", start, start + 40);
      } else {
        made.add(host, EventKind::kRuntime, "cudaLaunchKernel", launch,
                 launch + 1, 5000 + at);
      }
    }
  }
  return made.trace();
}

Analysis analysis_of(const AlignedTrace& recorded) {
  Result<Analysis> analysis = analyze(recorded);
  EXPECT_TRUE(analysis) << analysis.error().message;
  return *std::move(analysis);
}

TEST(CutSteps, AStepWithoutItsKernelsIsLeftOut) {
  const AlignedTrace recorded = AlignedTrace::as_recorded(cut_trace(4, 5));
  const Analysis analysis = analysis_of(recorded);
  EXPECT_EQ(analysis.steps.size(), 3u);
  ASSERT_EQ(analysis.ranks.size(), 1u);
  EXPECT_EQ(analysis.ranks[0].steps.size(), 3u);
  ASSERT_EQ(analysis.remarks.size(), 1u);
  EXPECT_EQ(analysis.remarks[0],
            "The trace was cut: on rank 0 the last 15 of 80 launches have no "
            "kernel in it; step 4 is left out there.");
}

TEST(CutSteps, AWholeTraceHasNone) {
  const AlignedTrace recorded = AlignedTrace::as_recorded(cut_trace(4, 20));
  const Analysis analysis = analysis_of(recorded);
  EXPECT_EQ(analysis.steps.size(), 4u);
  EXPECT_TRUE(analysis.remarks.empty());
}

// Two processes of one file use the same correlations: the later one's calls
// are no launches without kernels.
TEST(CutSteps, CallsOfACorrelationThatHasItsKernelLackNothing) {
  AnalysisTrace made;
  const uint32_t host = made.host_thread(0), other = made.host_thread(0, "b");
  const uint32_t device = made.device_stream(0);
  made.step(0, 1, 0, 1000);
  for (int at = 0; at < 20; ++at) {
    made.kernel(host, 2 * at, device, "gemm", 100 + 40 * at, 130 + 40 * at);
    made.add(other, EventKind::kRuntime, "cudaLaunchKernel", 500 + 2 * at,
             501 + 2 * at, at + 1);
  }
  const AlignedTrace recorded = AlignedTrace::as_recorded(made.trace());
  EXPECT_TRUE(analysis_of(recorded).remarks.empty());
}

TEST(CutSteps, TheOnlyStepStays) {
  const AlignedTrace recorded = AlignedTrace::as_recorded(cut_trace(1, 5));
  const Analysis analysis = analysis_of(recorded);
  EXPECT_EQ(analysis.steps.size(), 1u);
  ASSERT_EQ(analysis.remarks.size(), 1u);
  EXPECT_EQ(analysis.remarks[0],
            "The trace was cut: on rank 0 the last 15 of 20 launches have no "
            "kernel in it.");
}

}  // namespace
}  // namespace reprise
