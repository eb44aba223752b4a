// What a replayed trace says of its steps: where they begin and end, and what
// of a what-if counts in which.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "replay/simulate/graph_edits.h"
#include "replay/simulate/trace_replay.h"
#include "tests/replay/simulate/replayed_text.h"

namespace reprise {
namespace {

TEST(TraceReplaySteps, MeasuresStepsFromEndToEnd) {
  // Step 1's kernel runs until 130, step 2's until 210: 130, then 80. The mark
  // of step 1 ends at 100, its device work later.
  const Replayed steps = replayed(R"(
    step 0 1 0-100
    step 0 2 100-200
    h0 host-op ProfilerStep#1 0-100
    h0 host-op ProfilerStep#2 100-200
    h0 runtime cudaLaunchKernel 10-20 #1
    h0 runtime cudaLaunchKernel 110-120 #2
    d0 compute first 30-130 #1
    d0 compute second 131-210 #2)");
  ASSERT_EQ(steps.replay.steps.size(), 2u);
  for (const ReplayedStep& step : steps.replay.steps) {
    EXPECT_EQ(step.predicted_ns, step.measured_ns);
  }
  EXPECT_EQ(steps.replay.steps[0].predicted_ns, 130'000);
  EXPECT_EQ(steps.replay.steps[1].predicted_ns, 80'000);
  EXPECT_EQ(steps.replay.steps[1].start_ns, 130'000);
}

// Where the host works a tenth of the time, a copy of step 1 outlasts the steps
// after it, which end at 40 and 50: these add nothing to its 110.
TEST(TraceReplaySteps, CountOnceWhatOutlastsTheStepsAfterIt) {
  const char* const text = R"(
    step 0 1 0-100
    step 0 2 100-220
    step 0 3 220-320
    h0 runtime cudaMemcpyAsync 10-20 #1
    h0 host-op work 20-100
    h0 host-op work 100-220
    h0 host-op work 220-320
    d0 copy DtoH 20-110 #1 bytes=8)";
  const std::vector<JobStep> steps =
      replayed(text, {"op:work=0.1x"}).replay.job_steps;
  ASSERT_EQ(steps.size(), 3U);
  EXPECT_EQ(steps[0].predicted_ns, 110'000);
  EXPECT_EQ(steps[1].predicted_ns, 0);
  EXPECT_EQ(steps[2].predicted_ns, 0);
  EXPECT_EQ(replayed(text, {"op:work=0.1x"}).predicted_us(), 110);
}

// Rank 1's recording begins with step 2, at 100, which rank 0 is ready for at
// 50 when its host is twice as fast: step 3 alone tells what that gains.
TEST(TraceReplaySteps, CountFromWhereTheLastRecordingHasBegun) {
  const char* const text = R"(
    step 0 1 0-100
    step 0 2 100-200
    step 0 3 200-300
    step 1 2 100-200
    step 1 3 200-300
    h0 host-op work 0-100
    h0 host-op work 100-200
    h0 host-op work 200-300
    h1 host-op work 100-200
    h1 host-op work 200-300)";
  const std::vector<JobStep> steps =
      replayed(text, {"host=0.5x"}).replay.job_steps;
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_EQ(steps[0].step, 3);
  EXPECT_EQ(steps[0].predicted_ns, 50'000);
  EXPECT_EQ(steps[0].measured_ns, 100'000);
}

TEST(TraceReplaySteps, OfRanksLateByTurnsHasTheJobsPace) {
  // Each rank works 30, meets the other for 5, and by turns does 30 more: steps
  // end at 65, 130 and 195 on the last rank, but last 95 on the one that waits
  // for the other's last step and is late itself.
  const char* const text = R"(
    step 0 1 0-65
    step 0 2 65-100
    step 0 3 100-195
    step 1 1 0-35
    step 1 2 35-130
    step 1 3 130-165
    h0 host-op work 0-30
    h0 collective all-reduce 30-35 bytes=8
    h0 host-op extra 35-65
    h0 host-op work 65-95
    h0 collective all-reduce 95-100 bytes=8
    h0 host-op work 100-130
    h0 collective all-reduce 130-165 bytes=8
    h0 host-op extra 165-195
    h1 host-op work 0-30
    h1 collective all-reduce 30-35 bytes=8
    h1 host-op work 35-65
    h1 collective all-reduce 65-100 bytes=8
    h1 host-op extra 100-130
    h1 host-op work 130-160
    h1 collective all-reduce 160-165 bytes=8)";
  const Replayed all = replayed(text);
  ASSERT_EQ(all.replay.job_steps.size(), 3u);
  for (const JobStep& step : all.replay.job_steps) {
    EXPECT_EQ(step.measured_ns, 65'000);
    EXPECT_EQ(step.predicted_ns, 65'000);
  }
  // Step 2 alone counts from the end of step 1 on rank 0. Without the extra
  // work both ranks begin it at 35, and leave at 35 + 30 + 5.
  Replayed one = replayed(text, {}, {.step = 2});
  ASSERT_EQ(one.replay.job_steps.size(), 1u);
  EXPECT_EQ(one.replay.job_steps[0].measured_ns, 65'000);
  EXPECT_EQ(recorded_span_ns(one.graph), 65'000);
  one = replayed(text, {"straggler=none"}, {.step = 2});
  EXPECT_EQ(one.replay.job_steps[0].measured_ns, 65'000);
  EXPECT_EQ(one.replay.job_steps[0].predicted_ns, 35'000);
}

// A host that runs ahead: step 2's mark lies within the device's step 1.
constexpr const char* kLagging = R"(
    step 0 1 0-10
    step 0 2 10-20
    step 0 3 20-30
    h0 runtime cudaLaunchKernel 1-2 #1
    h0 runtime cudaLaunchKernel 11-12 #2
    h0 runtime cudaLaunchKernel 13-14 #3
    h0 runtime cudaLaunchKernel 21-22 #4
    d0 compute forward 5-105 #1
    d0 compute forward 105-165 #2
    d0 compute backward 165-205 #3
    d0 compute forward 205-305 #4)";

TEST(TraceReplaySteps, OfALaggingDeviceAStepBeginsWhereTheDeviceTurnsToIt) {
  const Replayed one = replayed(kLagging, {}, {.step = 2});
  ASSERT_EQ(one.replay.job_steps.size(), 1u);
  EXPECT_EQ(one.replay.job_steps[0].measured_ns, 100'000);
  EXPECT_EQ(one.replay.job_steps[0].predicted_ns, 100'000);
  EXPECT_EQ(one.predicted_us(), 100);
  EXPECT_EQ(one.replay.rank_predicted_ns[0], 100'000);
  int64_t path_ns = 0;
  for (const PathEntry& entry : one.replay.critical_path)
    path_ns += entry.duration_ns;
  EXPECT_EQ(path_ns, 100'000);
}

TEST(TraceReplaySteps, OfALaggingDeviceWhatIfsLeaveWhatWasUnderWay) {
  EXPECT_EQ(replayed(kLagging, {"device=0.5x"}, {.step = 2}).predicted_us(),
            50);
  EXPECT_EQ(replayed(kLagging, {"op:backward=0.5x"}, {.step = 2})
                .replay.job_steps[0]
                .predicted_ns,
            80'000);
}

TEST(TraceReplaySteps, OfLaggingDevicesAStepLastsFromTheLastOneThatBegins) {
  // Rank 1's device begins step 2 at 75, rank 0's at 105, where step 1 ended:
  // with half of what rank 0 does last the step ends at 190.
  std::string text;
  for (const char* rank : {"0", "1"}) {
    text += fmt::format(
        "step {0} 1 0-10\nstep {0} 2 10-20\nstep {0} 3 20-30\n"
        "h{0} runtime cudaLaunchKernel 1-2 #1\n"
        "h{0} runtime cudaLaunchKernel 11-12 #2\n"
        "h{0} runtime cudaLaunchKernel 13-14 #3\n"
        "h{0} runtime cudaLaunchKernel 15-16 #4\n"
        "h{0} runtime cudaLaunchKernel 21-22 #5\n",
        rank);
  }
  text += R"(
    d0 compute forward 5-105 #1
    d0 compute forward 105-165 #2
    d0 collective all-reduce 165-175 #3 bytes=8
    d0 compute validate 175-205 #4
    d0 compute forward 205-305 #5
    d1 compute forward 5-75 #1
    d1 compute forward 75-135 #2
    d1 collective all-reduce 135-175 #3 bytes=8
    d1 compute forward 175-235 #5)";
  EXPECT_EQ(replayed(text, {}, {.step = 2}).predicted_us(), 100);
  const Replayed one = replayed(text, {"op:validate=0.5x"}, {.step = 2});
  EXPECT_EQ(one.predicted_us(), 85);
  EXPECT_EQ(one.replay.job_steps[0].predicted_ns, 85'000);
}

TEST(TraceReplaySteps, OfThreadsBesideAStepWhatEndsBeyondItCountsOnlyGrown) {
  // Gloo's worker ends its range 60 us after the step that nobody held up for
  // it. With a tenth of the bandwidth what is no latency of its 80 us,
  // 73.4, takes 734.
  constexpr const char* kText = R"(
    step 0 1 0-100
    step 0 2 100-200
    h0 host-op forward 0-95
    h0 host-op forward 100-195
    h0b collective all-reduce 80-160 bytes=1000000)";
  const Replayed all = replayed(kText);
  ASSERT_EQ(all.replay.job_steps.size(), 2u);
  for (const JobStep& step : all.replay.job_steps) {
    EXPECT_EQ(step.measured_ns, 100'000);
  }
  const Replayed one = replayed(kText, {}, {.step = 1});
  EXPECT_EQ(one.replay.job_steps[0].measured_ns, 100'000);
  EXPECT_EQ(recorded_span_ns(one.graph), 100'000);
  EXPECT_EQ(one.predicted_us(), 100);
  EXPECT_EQ(replayed(kText, {"bandwidth=0.1x"}, {.step = 1}).predicted_us(),
            760);
}

TEST(TraceReplaySteps, WhatRanksDoBetweenTheirMarksIsNoSteps) {
  // A batch is loaded for 30 us between marks, in no operator.
  constexpr const char* kText = R"(
    step 0 1 0-100
    step 0 2 130-230
    step 0 3 260-360
    h0 host-op train 0-98
    h0 host-op train 132-228
    h0 host-op train 262-358)";
  const Replayed all = replayed(kText);
  ASSERT_EQ(all.replay.job_steps.size(), 3u);
  for (const JobStep& step : all.replay.job_steps)
    EXPECT_EQ(step.measured_ns, 100'000);
  EXPECT_EQ(all.replay.job_steps[1].predicted_ns, 100'000);
  // 4 us in each mark are gaps, which stay.
  const Replayed faster = replayed(kText, {"host=0.5x"});
  EXPECT_EQ(faster.replay.job_steps[1].predicted_ns, 52'000);
}

TEST(TraceReplaySteps, LevelledRanksEndTheStepBeforeEarlierToo) {
  // Rank 0's device works 40 longer at the end of each step, and its host
  // waits.
  const char* const text = R"(
    step 0 1 0-100
    step 0 2 100-200
    step 1 1 0-60
    step 1 2 60-160
    h0 runtime cudaLaunchKernel 1-2 #1
    h0 runtime cudaDeviceSynchronize 3-100
    h0 runtime cudaLaunchKernel 101-102 #2
    h0 runtime cudaDeviceSynchronize 103-200
    d0 compute train 10-50 #1
    d0 compute validate 58-98 #1
    d0 compute train 110-150 #2
    d0 compute validate 158-198 #2
    d0 collective all-reduce 50-58 bytes=8 #1
    d0 collective all-reduce 150-158 bytes=8 #2
    h1 runtime cudaLaunchKernel 1-2 #1
    h1 runtime cudaDeviceSynchronize 3-60
    h1 runtime cudaLaunchKernel 61-62 #2
    h1 runtime cudaDeviceSynchronize 63-160
    d1 compute train 10-50 #1
    d1 collective all-reduce 50-58 bytes=8 #1
    d1 compute train 70-110 #2
    d1 collective all-reduce 110-158 bytes=8 #2)";
  const Replayed one = replayed(text, {"straggler=none"}, {.step = 2});
  EXPECT_EQ(one.predicted_us(), one.replay.job_steps[0].predicted_ns / 1000);
  EXPECT_EQ(one.predicted_us(), 60);
}

TEST(TraceReplaySteps, LevelledRanksOfAllStepsStayAWindowOfAllSteps) {
  // Ranks that begin apart are moved; no rank is busy with a step before.
  Trace trace = parse_trace_text(R"(
    h0 host-op work 0-30
    h0 collective all-reduce 30-100 bytes=8
    h1 host-op work 40-90
    h1 collective all-reduce 90-100 bytes=8
    h2 host-op work 50-95
    h2 collective all-reduce 95-100 bytes=8)");
  Result<TimedGraph> graph =
      build_trace_graph(AlignedTrace::as_recorded(trace));
  ASSERT_TRUE(graph);
  ASSERT_TRUE(level_ranks(NodeFacts(trace), *graph));
  for (const TimedGraph::Span& rank : graph->ranks)
    EXPECT_EQ(rank.busy_until_ns, TimedGraph::Span::kNever);
  EXPECT_FALSE(step_begin_ns(*graph, evaluate(*graph)));
}

}  // namespace
}  // namespace reprise
