#include "replay/analysis/cut_steps.h"

#include <gtest/gtest.h>

#include "replay/analysis/analysis.h"
#include "tests/replay/analysis/analysis_trace.h"

namespace reprise {
namespace {

// Steps of 1000 ns, each of 20 kernels of 40 ns that are launched one behind
// the other; of one step (the last) the first `recorded` kernels are there.
// `captured`: that step's other launches are a graph's.
Trace cut_trace(int steps, int recorded, int cut_step = -1,
                bool captured = false) {
  AnalysisTrace made;
  const uint32_t host = made.host_thread(0), device = made.device_stream(0);
  if (cut_step < 0) cut_step = steps - 1;
  for (int step = 0; step < steps; ++step) {
    const int64_t begin = 1000 * int64_t{step};
    made.step(0, step + 1, begin, begin + 1000);
    const auto call = [&](const char* name, int64_t from, int64_t number) {
      made.add(host, EventKind::kRuntime, name, from, from + 1, 5000 + number);
    };
    if (step == cut_step && captured) {
      call("cudaStreamBeginCapture", begin + 1 + 2 * recorded, 100);
      call("cudaStreamEndCapture", begin + 60, 101);
    }
    for (int at = 0; at < 20; ++at) {
      const int64_t launch = begin + 2 + 2 * at, start = begin + 100 + 45 * at;
      if (step != cut_step || at < recorded) {
        made.kernel(host, launch, device, "gemm", start, start + 40);
      } else {
        call("cudaLaunchKernel", launch, at);
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
            "The trace was cut, or records were dropped: on rank 0 15 of 80 "
            "launches have no kernel in it; step 4 is left out there.");
}

// Buffers of records that were dropped leave holes anywhere.
TEST(CutSteps, AStepInTheMiddleThatLacksKernelsIsLeftOut) {
  const AlignedTrace recorded = AlignedTrace::as_recorded(cut_trace(4, 5, 1));
  const Analysis analysis = analysis_of(recorded);
  EXPECT_EQ(analysis.steps.size(), 3u);
  ASSERT_EQ(analysis.remarks.size(), 1u);
  EXPECT_NE(analysis.remarks[0].find("step 2 is left out"), std::string::npos);
}

// Of four steps that last as long as each other the third would be the one
// whose critical path is shown; of the three others the second is.
TEST(CutSteps, TheTypicalStepIsAWholeOne) {
  const AlignedTrace recorded = AlignedTrace::as_recorded(cut_trace(4, 5, 2));
  EXPECT_EQ(find_cut_steps(recorded.by_rank()).left_out(),
            std::set<int32_t>{3});
  const Analysis analysis = analysis_of(recorded);
  ASSERT_TRUE(analysis.typical.has_value());
  EXPECT_EQ(analysis.typical->step, 2);
  EXPECT_EQ(analysis.typical->step_ns, 1000);
}

TEST(CutSteps, LaunchesIntoAGraphLackNothing) {
  const AlignedTrace recorded =
      AlignedTrace::as_recorded(cut_trace(4, 5, 1, true));
  const Analysis analysis = analysis_of(recorded);
  EXPECT_EQ(analysis.steps.size(), 4u);
  EXPECT_TRUE(analysis.remarks.empty());
}

// Of each step half of the kernels have another correlation than their calls.
TEST(CutSteps, WhatEveryStepLacksWasNotLost) {
  AnalysisTrace made;
  const uint32_t host = made.host_thread(0), device = made.device_stream(0);
  for (int step = 0; step < 4; ++step) {
    const int64_t begin = 1000 * int64_t{step};
    made.step(0, step + 1, begin, begin + 1000);
    for (int at = 0; at < 20; ++at) {
      const int64_t launch = begin + 2 + 4 * at;
      made.add(host, EventKind::kRuntime, "cudaLaunchKernel", launch,
               launch + 1, 5000 + 20 * step + at);
      made.kernel(host, launch + 2, device, "gemm", begin + 100 + 45 * at,
                  begin + 140 + 45 * at);
    }
  }
  const AlignedTrace recorded = AlignedTrace::as_recorded(made.trace());
  const Analysis analysis = analysis_of(recorded);
  EXPECT_EQ(analysis.steps.size(), 4u);
  EXPECT_TRUE(analysis.remarks.empty());
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
            "The trace was cut, or records were dropped: on rank 0 15 of 20 "
            "launches have no kernel in it.");
}

// Nsight's --cuda-graph-trace=graph has one row a launch.
TEST(WholeGraphs, AreSaidToHideWhatRanInside) {
  AnalysisTrace made;
  made.step(0, 1, 0, 1000);
  made.kernel(made.host_thread(0), 10, made.device_stream(0), "CUDA graph 4",
              100, 900);
  const AlignedTrace recorded = AlignedTrace::as_recorded(made.trace());
  const Analysis analysis = analysis_of(recorded);
  ASSERT_EQ(analysis.remarks.size(), 1u);
  EXPECT_TRUE(analysis.remarks[0].starts_with(
      "1 launches of CUDA graphs were traced whole"));
}

}  // namespace
}  // namespace reprise
