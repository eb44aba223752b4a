#include "replay/analysis/analysis.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "replay/analysis/trace_diff.h"
#include "replay/simulate/replay.h"
#include "replay/simulate/run_model.h"
#include "replay/simulate/trace_replay.h"
#include "tests/replay/analysis/analysis_trace.h"
#include "tests/replay/simulate/synthetic_run.h"

namespace reprise {
namespace {

// Collectives of the last layers outlast the backward pass, so the path leaves
// compute where it waits for one. Recorded times alone do not say which unit a
// collective waited for; the program does.
TEST(Analysis, FollowsTheProgramOfATraceAsReplayDoes) {
  const Schedule schedule = training_schedule({.layers = 6});
  const AlignedTrace run = AlignedTrace::align(
      run_trace(schedule, true_costs(schedule, 64e3), {.steps = 8}));
  const Result<Analysis> analysis =
      analyze(run, {.step = {}, .critical_path = true, .program = &schedule});
  ASSERT_TRUE(analysis.has_value());
  const Result<RunModel> model = model_run(run, schedule);
  ASSERT_TRUE(model.has_value());
  const Replay replay = replay_step(price_schedule(schedule, model->costs));
  const std::vector<PathEntry>& path = analysis->critical_path.entries;
  ASSERT_EQ(path.size(), replay.critical_path.size());
  EXPECT_EQ(analysis->critical_path.length_ns, replay.step_time_ns);
  for (size_t i = 0; i < path.size(); ++i) {
    const PathEntry& same = replay.critical_path[i];
    EXPECT_EQ(path[i].kind, same.kind);
    EXPECT_EQ(path[i].rank, same.rank);
    EXPECT_EQ(path[i].duration_ns, same.duration_ns);
    const Event& event = run.trace().events[path[i].origin];
    EXPECT_EQ(event.unit, static_cast<int32_t>(same.origin));
    EXPECT_EQ(event.step, analysis->critical_path.step);
  }
}

// One layer: its update waits for its collective, and that for the backward
// unit, whatever else ran; so the path goes over the transfer, without a gap.
TEST(Analysis, CrossesFromComputeToTheCollectiveThatItWaitedFor) {
  Schedule schedule = training_schedule({.layers = 1});
  const AlignedTrace run = AlignedTrace::align(
      run_trace(schedule, true_costs(schedule, 0), {.steps = 8}));
  const Result<Analysis> analysis =
      analyze(run, {.step = {}, .critical_path = true, .program = &schedule});
  ASSERT_TRUE(analysis.has_value());
  int64_t transfers = 0, unexplained = 0;
  for (const PathEntry& entry : analysis->critical_path.entries) {
    const Event& event = run.trace().events[entry.origin];
    const bool collective = event.kind == EventKind::kCollective;
    transfers += entry.kind == PathKind::kCollective;
    EXPECT_FALSE(entry.kind == PathKind::kCollective && !collective);
    EXPECT_FALSE(entry.kind == PathKind::kKernel && collective);
    unexplained += entry.kind == PathKind::kUnexplained;
  }
  EXPECT_GT(transfers, 0);
  EXPECT_EQ(unexplained, 0);
}

// Two files of one run, of different windows of it.
// An execution trace without its timed partner has neither; a graph of Chakra's
// has durations, which a replay lays out.
TEST(Analysis, SaysWhetherUntimedEventsHaveDurations) {
  AnalysisTrace made;
  Event& op = made.add(made.host_thread(0), EventKind::kHostOp, "op", 3, 3);
  made.trace().ranks[0].clock_domain = "none";
  const auto refusal = [&] {
    const auto analysis = analyze(AlignedTrace::align(made.trace()), {});
    return analysis ? std::string() : analysis.error().message;
  };
  EXPECT_NE(refusal().find("no times or durations"), std::string::npos);
  op.end_ns = 5;
  EXPECT_NE(refusal().find("durations and dependencies"), std::string::npos);
}

TEST(Analysis, SaysThatRanksHaveNoStepInCommon) {
  for (const int32_t later : {2, 6}) {
    AnalysisTrace run;
    for (const uint32_t rank : {0U, 1U}) {
      const uint32_t host = run.host_thread(rank);
      const uint32_t device = run.device_stream(rank);
      run.kernel(host, 10, device, "gemm", 20, 90);
      const int32_t number = rank == 0 ? 2 : later;
      run.step(rank, number, 0, 50);
      run.step(rank, number + 1, 50, 100);
    }
    const Result<Analysis> analysis =
        analyze(AlignedTrace::align(run.trace()), {});
    ASSERT_TRUE(analysis.has_value());
    const auto said =
        std::count_if(analysis->remarks.begin(), analysis->remarks.end(),
                      [](const std::string& remark) {
                        return remark.starts_with(
                            "Ranks 0 and 1 have no step in common "
                            "(from 2 and from 6 on)");
                      });
    EXPECT_EQ(said, later == 2 ? 0 : 1);
  }
}

// Two recordings of a host, the second 30 s after the first.
TEST(Analysis, SaysThatRanksWereRecordedApart) {
  constexpr int64_t kSecond = 1'000'000'000;
  for (const int64_t later_ns : {kSecond / 2, 31 * kSecond}) {
    AnalysisTrace run;
    for (const uint32_t rank : {0U, 1U}) {
      const uint32_t host = run.host_thread(rank);
      const int64_t start_ns = 1'700'000'000 * kSecond + rank * later_ns;
      run.add(host, EventKind::kHostOp, "aten::mm", start_ns,
              start_ns + kSecond);
    }
    const Result<Analysis> analysis =
        analyze(AlignedTrace::align(run.trace()), {});
    ASSERT_TRUE(analysis.has_value());
    const auto said = std::count_if(
        analysis->remarks.begin(), analysis->remarks.end(),
        [](const std::string& remark) {
          return remark.starts_with(
              "Ranks 0 and 1 were recorded 30 s apart, by their clocks: were");
        });
    EXPECT_EQ(said, later_ns > kSecond ? 1 : 0);
  }
}

// A rank marks steps in which it does nothing that was recorded.
TEST(Analysis, StepsCountWhereARankDidNothing) {
  AnalysisTrace run;
  for (const uint32_t rank : {0U, 1U}) {
    const uint32_t host = run.host_thread(rank);
    for (int32_t step = 0; step < 3; ++step)
      run.step(rank, step, 100 * step, 100 * step + 100);
    if (rank == 0) run.add(host, EventKind::kHostOp, "aten::mm", 10, 90);
  }
  const Result<Analysis> analysis = analyze(AlignedTrace::align(run.trace()));
  ASSERT_TRUE(analysis.has_value());
  EXPECT_EQ(analysis->step_ns, 100);
}

// The host marks a step each 10 us and runs ahead of its device, which takes 30
// for the work of each: so does a step, of a chosen one as of all.
TEST(Analysis, AHostThatRunsAheadIsNoFasterThanItsDevice) {
  AnalysisTrace run;
  const uint32_t host = run.host_thread(0);
  const uint32_t device = run.device_stream(0);
  for (int32_t step = 0; step < 6; ++step) {
    const int64_t begin = 10'000 * step, work = 30'000 * step + 5'000;
    run.kernel(host, begin + 1'000, device, "gemm", work, work + 30'000);
    run.step(0, step, begin, begin + 10'000);
  }
  const AlignedTrace recorded = AlignedTrace::align(run.trace());
  const Result<Analysis> analysis = analyze(recorded);
  ASSERT_TRUE(analysis.has_value());
  EXPECT_EQ(analysis->step_ns, 30'000);
  const Result<TraceDiff> diff =
      diff_traces(recorded.trace(), recorded.trace(), DiffKey::kOp);
  ASSERT_TRUE(diff.has_value());
  EXPECT_EQ(diff->before.step_ns, 30'000);
  EXPECT_EQ(recorded_span_ns(*analysis->graph), 30'000);
  EXPECT_EQ(analyze(recorded, {.step = 4})->step_ns, 30'000);
  for (const TraceWindow& window : {TraceWindow{}, TraceWindow{.step = 4}}) {
    const TimedGraph graph = build_trace_graph(recorded, window).value();
    const TraceReplay replay =
        replay_trace(recorded.trace(), graph, {}).value();
    ASSERT_FALSE(replay.job_steps.empty());
    EXPECT_EQ(replay.job_steps.back().measured_ns, 30'000);
    EXPECT_EQ(replay.job_steps.back().predicted_ns, 30'000);
  }
}

}  // namespace
}  // namespace reprise
