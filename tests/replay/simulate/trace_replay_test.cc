#include "replay/simulate/trace_replay.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "replay/simulate/graph_edits.h"
#include "replay/simulate/trace_replay_timeline.h"
#include "tests/replay/simulate/replayed_text.h"

namespace reprise {
namespace {

// Two kernels of 100 us in a row: 15 us from the first launch to its start,
// 5 us between them; the host returns 10 us after the last one: 230 us.
constexpr const char* kDeviceBound = R"(
    h0 runtime cudaLaunchKernel 0-10 #1
    h0 runtime cudaLaunchKernel 10-20 #2
    h0 runtime cudaDeviceSynchronize 20-230
    d0 compute k1 15-115 #1
    d0 compute k2 120-220 #2)";

// Read rank by rank, a trace has the matching, the graph and the path that it
// has in memory.
TEST(TraceReplay, IsTheSameRankByRank) {
  std::string text;
  for (const char* rank : {"0", "1", "2"}) {
    for (const char* line :
         {"h@ annotation forward 0-60", "h@ runtime cudaLaunchKernel 5-10 #1",
          "h@ runtime cudaLaunchKernel 20-25 #2",
          "h@ runtime cudaDeviceSynchronize 60-200", "d@ compute gemm 15-4@ #1",
          "d@x collective all-reduce 5@-150 #2 "
          "bytes=64"}) {
      for (const char* at = line; *at != 0; ++at) {
        if (*at == '@') {
          text += rank;
        } else {
          text += *at;
        }
      }
      text += "\n";
    }
  }
  const Trace trace = parse_trace_text(text);
  const std::string path = (std::filesystem::temp_directory_path() /
                            fmt::format("reprise_replay_{}", ::getpid()))
                               .string();
  ASSERT_TRUE(write_trace(trace, path));
  const AlignedTrace whole = AlignedTrace::align(trace);
  const Result<AlignedTrace> packed = AlignedTrace::read(path, 0);
  std::filesystem::remove(path);
  ASSERT_TRUE(packed) << packed.error().message;
  ASSERT_TRUE(packed->by_rank().is_packed());
  EXPECT_EQ(packed->frame().ranks, whole.frame().ranks);
  ASSERT_EQ(packed->matching().collectives.size(), 1U);
  EXPECT_EQ(packed->matching().collectives[0].members.size(), 3U);
  EXPECT_EQ(packed->matching().of_event, whole.matching().of_event);
  const Result<TimedGraph> graph = build_trace_graph(*packed);
  const Result<TimedGraph> expected = build_trace_graph(whole);
  ASSERT_TRUE(graph && expected);
  EXPECT_EQ(graph->origin, expected->origin);
  const Result<TraceReplay> replay =
      replay_trace(NodeFacts(packed->by_rank()), *graph);
  const Result<TraceReplay> other =
      replay_trace(NodeFacts(whole.trace()), *expected);
  ASSERT_TRUE(replay && other);
  EXPECT_EQ(replay->end_ns, other->end_ns);
  ASSERT_EQ(replay->critical_path.size(), other->critical_path.size());
  for (size_t i = 0; i < replay->critical_path.size(); ++i) {
    const PathEntry &one = replay->critical_path[i],
                    &two = other->critical_path[i];
    EXPECT_EQ(one.origin, two.origin);
    EXPECT_EQ(path_name(NodeFacts(packed->by_rank()), one),
              path_name(NodeFacts(whole.trace()), two));
  }
}

TEST(TraceReplay, GivesTheRecordedTimesBack) {
  const Replayed same = replayed(kDeviceBound);
  EXPECT_EQ(same.predicted_us(), 230);
  EXPECT_EQ(same.replay.measured_ns, 230'000);
  EXPECT_EQ(same.replay.sources.unexplained, 0);
  EXPECT_EQ(same.replay.without_gaps_ns, 230'000);
}

TEST(TraceReplay, RecomputesWhatTheHostWaitedFor) {
  // 15 + 200 + 5 + 200 + 10.
  EXPECT_EQ(replayed(kDeviceBound, {"device=2x"}).predicted_us(), 430);
  // 15 + 50 + 5 + 50 + 10; the launches end long before.
  EXPECT_EQ(replayed(kDeviceBound, {"device=0.5x"}).predicted_us(), 130);
  EXPECT_EQ(replayed(kDeviceBound, {"op:k2=0.1x"}).predicted_us(), 140);
  // The synchronization's own 10 us become 20; the launches are hidden.
  EXPECT_EQ(replayed(kDeviceBound, {"host=2x"}).predicted_us(), 240);
  // The first kernel starts at once.
  EXPECT_EQ(replayed(kDeviceBound, {"launch=0"}).predicted_us(), 215);
}

// 15 + 100 + 5 + 50 + 10: what crosses the link to the host takes as long.
TEST(TraceReplay, AFasterDeviceCopiesFromTheHostNoFaster) {
  const std::string copying = R"(
    h0 runtime cudaMemcpyAsync 0-10 #1
    h0 runtime cudaLaunchKernel 10-15 #2
    h0 runtime cudaDeviceSynchronize 15-230
    d0 copy MemcpyH2D 15-115 #1
    d0 compute k 120-220 #2)";
  EXPECT_EQ(replayed(copying).predicted_us(), 230);
  EXPECT_EQ(replayed(copying, {"device=0.5x"}).predicted_us(), 180);
}

// Of runtimes that name their calls after CUDA's or the other way round.
TEST(TraceReplay, KnowsTheWaitsOfOtherRuntimes) {
  for (const std::string call :
       {"hipDeviceSynchronize", "musaDeviceSynchronize", "mcDeviceSynchronize",
        "aclrtSynchronizeDevice"}) {
    const std::string text =
        "h0 runtime cudaLaunchKernel 0-10 #1\n"
        "h0 runtime cudaLaunchKernel 10-20 #2\n"
        "h0 runtime " +
        call +
        " 20-230\n"
        "d0 compute k1 15-115 #1\n"
        "d0 compute k2 120-220 #2";
    EXPECT_EQ(replayed(text, {"device=2x"}).predicted_us(), 430) << call;
  }
}

TEST(TraceReplay, IsLimitedByTheHostOnceTheDeviceIsFast) {
  // The second launch begins at 200, so its kernel never starts before 215,
  // whatever the first one does; 215 + 10 + 10.
  const std::string host_bound = R"(
    h0 runtime cudaLaunchKernel 0-10 #1
    h0 host-op python 10-200
    h0 runtime cudaLaunchKernel 200-210 #2
    h0 runtime cudaDeviceSynchronize 210-325
    d0 compute k1 15-115 #1
    d0 compute k2 215-315 #2)";
  EXPECT_EQ(replayed(host_bound).predicted_us(), 325);
  EXPECT_EQ(replayed(host_bound, {"device=0.1x"}).predicted_us(), 235);
  EXPECT_EQ(replayed(host_bound, {"op:python=2x"}).predicted_us(), 515);
}

TEST(TraceReplay, SaysWhyThePathLasts) {
  const Replayed replay = replayed(kDeviceBound);
  std::vector<std::pair<std::string, int64_t>> path;
  for (const PathEntry& entry : replay.replay.critical_path) {
    path.emplace_back(name_of(entry.kind), entry.duration_ns / 1000);
  }
  const std::vector<std::pair<std::string, int64_t>> expected = {
      {"launch", 15},
      {"kernel", 100},
      {"launch", 5},
      {"kernel", 100},
      {"host", 10}};
  EXPECT_EQ(path, expected);
}

TEST(TraceReplay, CountsGapsThatNothingExplains) {
  const Replayed gaps = replayed(R"(
    h0 host-op a 0-50
    h0 host-op b 100-150)");
  EXPECT_EQ(gaps.predicted_us(), 150);
  EXPECT_DOUBLE_EQ(gaps.replay.sources.unexplained, 1.0 / 3);
  EXPECT_DOUBLE_EQ(gaps.replay.rank_unexplained_share[0], 1.0 / 3);
  EXPECT_EQ(gaps.replay.without_gaps_ns, 100'000);
}

// Seconds of loading, a step to warm up, then two steps: what is said of the
// step is of these two. Found on an H100, where 48 % of a step was unexplained
// that lay before the first one.
TEST(TraceReplay, SaysOfStepsWhatLiesInThem) {
  const std::string steps = R"(
    step 0 0 1000-1100 warmup
    step 0 1 1100-1200
    step 0 2 1200-1300
    h0 host-op load 0-10
    h0 host-op w 1000-1100
    h0 host-op a 1100-1180
    h0 host-op b 1200-1280
    h0 host-op end 1290-1300)";
  const Replayed replay = replayed(steps);
  EXPECT_EQ(replay.predicted_us(), 1300);
  int64_t path_us = 0;
  for (const PathEntry& entry : replay.replay.critical_path)
    path_us += entry.duration_ns / 1000;
  EXPECT_EQ(path_us, 200);
  EXPECT_DOUBLE_EQ(replay.replay.sources.unexplained, 30.0 / 200);
  EXPECT_DOUBLE_EQ(replay.replay.rank_unexplained_share[0], 30.0 / 200);
  EXPECT_DOUBLE_EQ(replay.replay.without_gaps_share, 170.0 / 200);
  EXPECT_EQ(replay.replay.without_gaps_ns, 280'000);
}

// JAX waits for the device by a callback, not by a call of CUDA's: its thread
// does nothing until the step's mark ends. On an H100 93 % of a step was
// unexplained, and a slower device made it no longer.
TEST(TraceReplay, AStepsEndWaitsForTheDevice) {
  const std::string steps = R"(
    step 0 1 0-215
    step 0 2 230-445
    h0 runtime cudaLaunchKernel 0-10 #1
    d0 compute k1 15-210 #1
    h0 runtime cudaLaunchKernel 230-240 #2
    d0 compute k2 245-440 #2)";
  const Replayed replay = replayed(steps);
  EXPECT_EQ(replay.predicted_us(), 440);
  EXPECT_EQ(replayed(steps, {"device=2x"}).predicted_us(), 440 + 2 * 195);
  EXPECT_LT(replay.replay.sources.unexplained, 0.05);
}

// Whole microseconds put the end of the second wait behind the end of its step:
// kernels of 39 us begin 5 after their launches, which are 10 after the step's
// begin, and waits end 5 after them; the window ends 1 behind the last step.
TEST(TraceReplay, AWaitMayEndBehindItsStep) {
  EXPECT_EQ(replayed(R"(
    step 0 1 0-215
    step 0 2 215-430
    h0 runtime cudaLaunchKernel 0-10 #1
    d0 compute k1 15-210 #1
    h0 runtime cudaStreamSynchronize 10-215 #5
    h0 runtime cudaLaunchKernel 215-225 #2
    d0 compute k2 230-425 #2
    h0 runtime cudaStreamSynchronize 225-431 #6)",
                     {"device=0.2x"})
                .predicted_us(),
            2 * (15 + 39 + 5) + 1);
}

// Where the device ended long before, the host had something else to do.
TEST(TraceReplay, AStepsEndDoesNotWaitForADeviceThatWasDone) {
  EXPECT_EQ(replayed(R"(
    step 0 1 0-215
    step 0 2 230-445
    h0 runtime cudaLaunchKernel 0-10 #1
    d0 compute k1 15-110 #1
    h0 runtime cudaLaunchKernel 230-240 #2
    d0 compute k2 245-340 #2)",
                     {"device=2x"})
                .predicted_us(),
            340 + 95);
}

// Rank 1 arrives at 70, after work of 48 us; rank 0 at 20; the transfer takes
// 40 us, of which 10 are latency, for want of a second size.
constexpr const char* kStraggler = R"(
    h0 runtime cudaLaunchKernel 0-10 #1
    h1 runtime cudaLaunchKernel 0-10 #1
    h1 runtime cudaLaunchKernel 10-20 #2
    d0 collective all-reduce 20-110 #1 bytes=1000
    d1 compute slow 20-68 #1
    d1 collective all-reduce 70-110 #2 bytes=1000)";

// Two of a job's eight ranks, of which pairs meet: of 16 ranks fours do.
TEST(TraceReplay, GroupsGrowAsTheJobDoes) {
  const Replayed fours = replayed(kStraggler, {"ranks=4"});
  EXPECT_GT(fours.predicted_us(), replayed(kStraggler).predicted_us());
  Trace eight = parse_trace_text(kStraggler);
  eight.environment["world_size"] = "8";
  EXPECT_EQ(replayed(eight, {"ranks=16"}).predicted_us(), fours.predicted_us());
  EXPECT_EQ(refusal(eight, "ranks=10"),
            "--what-if ranks=10: the job has 8 ranks in groups of 2; give a "
            "multiple of 4");
}

// Where collectives alone were recorded, the time between them is each rank's
// own: rank 1 comes 30 us later than the others to the first, and needs 30 more
// than their 70 between both.
TEST(TraceReplay, LevelsTheTimeBetweenCollectivesAlone) {
  constexpr const char* kText = R"(
    d0 collective all-reduce 0-40
    d1 collective all-reduce 30-40
    d2 collective all-reduce 0-40
    d0 collective all-reduce 110-150
    d1 collective all-reduce 140-150
    d2 collective all-reduce 110-150)";
  EXPECT_EQ(replayed(kText).predicted_us(), 150);
  EXPECT_EQ(replayed(kText, {"straggler=none"}).predicted_us(), 150 - 30 - 30);
}

// Copies of a pipeline would reduce gradients, of sizes that nobody sent.
TEST(TraceReplay, APipelineDoesNotTellOfItsCopies) {
  EXPECT_EQ(refusal(parse_trace_text(R"(
      d0 collective send 40-45 id=2 bytes=8 peer=1
      d1 collective receive 0-45 id=1 bytes=8 peer=0)"),
                    "ranks=4"),
            "--what-if ranks=4: ranks send each other messages alone, as "
            "stages of a pipeline or servers do, and what more of them would "
            "exchange was not recorded: record two copies of the pipeline "
            "(data parallelism), or that many workers, and ask of that trace");
}

// Tensor parallelism of two takes 100 us, data parallelism of two 200 for four
// times the bytes: 66.7 are latency. Of eight ranks four meet in the latter:
// 1.5 times as much is on each link, and but for the call's 6.6 us latency is 4
// hops' in place of 2: 6.6 + 60.1 * 2 + 133.3 * 1.5 = 326.7.
TEST(TraceReplay, TensorParallelGroupsStayAsTheJobGrows) {
  std::string text;
  for (const char* rank : {"0", "1", "2", "3"}) {
    text += fmt::format(
        "h{0} runtime cudaLaunchKernel 0-10 #1\n"
        "h{0} runtime cudaLaunchKernel 10-20 #2\n"
        "d{0} collective tensors 20-120 #1 bytes=1000\n"
        "d{0} collective replicas 120-320 #2 bytes=4000\n",
        rank);
  }
  Trace trace = parse_trace_text(text);
  for (Event& event : trace.events) {
    if (event.kind != EventKind::kCollective) continue;
    CollectiveInfo info = {.kind = CollectiveKind::kAllReduce};
    info.group = trace.text(event.name) == "tensors"
                     ? std::vector{event.rank / 2 * 2, event.rank / 2 * 2 + 1}
                     : std::vector{event.rank % 2, event.rank % 2 + 2};
    event.detail = static_cast<int32_t>(trace.collectives.size());
    trace.collectives.push_back(info);
  }
  const int64_t eight_us = replayed(trace, {"ranks=8"}).predicted_us();
  EXPECT_NEAR(static_cast<double>(eight_us), 120 + 326.7, 1);
}

// All-reduces of two ranks take 100 us for 1 kB and 200 for 4: 66.7 are
// latency, 6.6 of a call and two hops. A message of 100 us has one: 6.6 + 30
// stay, the rest takes twice as long by half the bandwidth.
TEST(TraceReplay, AMessageHasOneHopOfACollectives) {
  const Trace trace = parse_trace_text(R"(
    h0 collective all-reduce 0-100 bytes=1000
    h1 collective all-reduce 0-100 bytes=1000
    h0 collective all-reduce 100-300 bytes=4000
    h1 collective all-reduce 100-300 bytes=4000
    h0 collective send 300-400 bytes=4000 peer=1
    h1 collective receive 300-400 bytes=4000 peer=0)");
  const int64_t half_us = replayed(trace, {"bandwidth=0.5x"}).predicted_us();
  const double reduces_us = 2 * 66.7 + 2 * (33.3 + 133.3);
  EXPECT_NEAR(static_cast<double>(half_us), reduces_us + 36.7 + 2 * 63.3, 2);
}

// What moves no data takes as long by any link; latency it has.
TEST(TraceReplay, ABarrierTakesNoBandwidth) {
  const std::string barrier = R"(
    h0 collective barrier 10-30
    h1 collective barrier 10-30)";
  const Trace alone = parse_trace_text(barrier);
  EXPECT_EQ(refusal(alone, "bandwidth=0.5x"),
            "--what-if bandwidth or latency: the trace has no collectives but "
            "barriers, which move no data");
  EXPECT_EQ(replayed(alone, {"latency=0.5x"}).predicted_us(), 10);
  const Trace beside = parse_trace_text(barrier + R"(
    h0 collective all-reduce 30-130 bytes=1000
    h1 collective all-reduce 30-130 bytes=1000)");
  const int64_t wire_us =
      replayed(beside, {"bandwidth=0.5x"}).predicted_us() - 120;
  EXPECT_GT(wire_us, 80);
  EXPECT_LE(wire_us, 100);
}

TEST(TraceReplay, RecomputesTheWaitInACollective) {
  EXPECT_EQ(replayed(kStraggler).predicted_us(), 110);
  // Rank 1's work takes 24 us, so it arrives at 20 + 24 + 2.
  const Replayed faster = replayed(kStraggler, {"rank:1=0.5x"});
  EXPECT_EQ(faster.replay.rank_predicted_ns,
            (std::vector<int64_t>{86'000, 86'000}));
  // Rank 0 does no device work at all, and launches once: so does rank 1. Its
  // second launch begins at 5, its collective 20 later.
  EXPECT_EQ(replayed(kStraggler, {"straggler=none"}).predicted_us(), 65);
  // A late rank holds up the other one.
  const Replayed later = replayed(kStraggler, {"op:slow=2x"});
  EXPECT_EQ(later.replay.rank_predicted_ns,
            (std::vector<int64_t>{158'000, 158'000}));
}

TEST(TraceReplay, LevelsRanksThatAreLateByTurns) {
  // Each rank does 40 more in one step, as much as the other over all.
  const Replayed levelled = replayed(R"(
    step 0 1 0-100
    step 0 2 100-200
    step 1 1 0-100
    step 1 2 100-200
    h0 host-op extra 0-40
    h0 host-op work 40-70
    h0 collective all-reduce 70-100 bytes=8
    h0 host-op work 100-130
    h0 collective all-reduce 130-200 bytes=8
    h1 host-op work 0-30
    h1 collective all-reduce 30-100 bytes=8
    h1 host-op extra 100-140
    h1 host-op work 140-170
    h1 collective all-reduce 170-200 bytes=8)",
                                     {"straggler=none"});
  for (const JobStep& step : levelled.replay.job_steps)
    EXPECT_EQ(step.predicted_ns, 60'000);
}

TEST(TraceReplay, ChangesTransfersAndNotWaits) {
  // Of 40 us in one size, what is assumed is latency: 6.6, and 0.6 for each of
  // two hops. 70 + 7.8 + 16.1; 70 + 3.9 + 32.2; 70 + 20 + 32.2; 70 + 20.
  EXPECT_EQ(replayed(kStraggler, {"bandwidth=2x"}).predicted_us(), 93);
  EXPECT_EQ(replayed(kStraggler, {"latency=0.5x"}).predicted_us(), 106);
  EXPECT_EQ(replayed(kStraggler, {"latency=20us"}).predicted_us(), 122);
  EXPECT_EQ(replayed(kStraggler, {"op:all-reduce=0.5x"}).predicted_us(), 90);
}

TEST(TraceReplay, OverlapsCollectivesWithWhatCameAfterThem) {
  // b follows the collective on its stream; free of that it runs beside it,
  // from 116 + 1 on: 117 + 100, against 317.
  const std::string serial = R"(
    h0 runtime cudaLaunchKernel 0-10 #1
    h0 runtime cudaLaunchKernel 10-20 #2
    h0 runtime cudaLaunchKernel 20-30 #3
    d0 compute a 15-115 #1
    d0 collective all-reduce 116-216 #2 bytes=1000
    d0 compute b 217-317 #3)";
  EXPECT_EQ(replayed(serial).predicted_us(), 317);
  EXPECT_EQ(replayed(serial, {"overlap=ideal"}).predicted_us(), 217);
}

TEST(TraceReplay, WaitsForOtherStreamsAreNoLaunchesOrDispatches) {
  // What follows an all-reduce was handed over long before, in each step; that
  // is no queue's delay, though there is no other sample of one.
  std::string text;
  for (int step = 1; step <= 3; ++step) {
    const int from = step * 2000;
    text += fmt::format("step 0 {} {}-{}\nstep 1 {} {}-{}\n", step, from,
                        from + 1300, step, from, from + 1300);
    for (int rank = 0; rank < 2; ++rank) {
      const int call = step * 10;
      text += fmt::format(
          "h{0} runtime cudaLaunchKernel {1}-{2} #{3}\n"
          "h{0} runtime cudaLaunchKernel {4}-{5} #{6}\n"
          "h{0} runtime cudaLaunchKernel {7}-{8} #{9}\n"
          "h{0} runtime cudaDeviceSynchronize {10}-{11}\n",
          rank, from, from + 5, call, from + 10, from + 15, call + 1, from + 20,
          from + 25, call + 2, from + 30, from + 1300);
      text += fmt::format(
          "d{0} compute first {1}-{2} #{3}\n"
          "d{0}x collective all-reduce {4}-{5} #{6} bytes=4000000\n"
          "d{0} compute second {7}-{8} #{9}\n",
          rank, from + 15, from + 300, call, from + 302, from + 1000, call + 1,
          from + 1002, from + 1290, call + 2);
    }
  }
  const Replayed as_recorded = replayed(text);
  const Replayed faster = replayed(text, {"bandwidth=1000x"});
  EXPECT_EQ(as_recorded.replay.job_steps[1].predicted_ns,
            as_recorded.replay.job_steps[1].measured_ns);
  EXPECT_LT(faster.replay.job_steps[1].predicted_ns,
            as_recorded.replay.job_steps[1].predicted_ns - 600'000);
}

TEST(TraceReplay, LevelsWhatDevicesWaitForHostsThatWereNotRecorded) {
  // Rank 2's host hands b over 30 late, and nobody recorded hosts.
  const char* const text = R"(
    d0 compute a 0-10
    d0 compute b 11-20
    d0 collective all-reduce 20-60 bytes=8
    d1 compute a 0-10
    d1 compute b 11-20
    d1 collective all-reduce 20-60 bytes=8
    d2 compute a 0-10
    d2 compute b 41-50
    d2 collective all-reduce 50-60 bytes=8)";
  EXPECT_EQ(replayed(text).predicted_us(), 60);
  EXPECT_EQ(replayed(text, {"straggler=none"}).predicted_us(), 30);
}

TEST(TraceReplay, GuessesNoWaitWhereADependencyTellsWhatWorkWaitedFor) {
  // c follows a by 10, as recorded, and other work's end by chance.
  const char* const text = R"(
    d0 compute a 0-10 id=1
    d0x compute other 0-18 id=2
    d0y compute c 20-30 id=3
    depends 0 1 3)";
  EXPECT_EQ(replayed(text).predicted_us(), 30);
  EXPECT_EQ(replayed(text, {"op:other=2x"}).predicted_us(), 36);
}

TEST(TraceReplay, TakesNoWaitOfEveryKernelForItsDispatch) {
  // Each kernel follows one on another stream, as all of tensor parallelism do.
  const char* const text = R"(
    h0 runtime cudaLaunchKernel 0-1 #1
    h0 runtime cudaLaunchKernel 1-2 #2
    h0 runtime cudaLaunchKernel 2-3 #3
    h0 runtime cudaLaunchKernel 3-4 #4
    h0 runtime cudaLaunchKernel 4-5 #5
    d0 compute a 10-50 #1
    d0x compute other 52-92 #2
    d0 compute a 93-133 #3
    d0x compute other 135-175 #4
    d0 compute a 176-216 #5)";
  EXPECT_EQ(replayed(text).predicted_us(), 216);
  EXPECT_EQ(replayed(text, {"op:other=0.5x"}).predicted_us(), 216 - 2 * 20);
}

TEST(TraceReplay, RunsUntimedWorkWhenItsDependenciesAllow) {
  // b and c follow a; on one stream one after the other, on two together.
  const auto text = [](const std::string& stream) {
    return "untimed\n"
           "d0 compute a 0-10 id=1\n"
           "d0 compute b 0-20 id=2\n" +
           stream + " compute c 0-30 id=3\ndepends 0 1 2\ndepends 0 1 3\n";
  };
  EXPECT_EQ(replayed(text("d0")).predicted_us(), 60);
  EXPECT_EQ(replayed(text("d0x")).predicted_us(), 40);
  EXPECT_EQ(replayed(text("d0x"), {"op:c=2x"}).predicted_us(), 70);
}

TEST(TraceReplay, UntimedMembersThatLastLongerWaited) {
  // Rank 1 computes 30 longer, for which rank 0 waits in an all-reduce of 20; a
  // broadcast's members may leave before the others, so theirs stay.
  const auto text = [](const char* operation) {
    return fmt::format(R"(untimed
        d0 compute a 0-10 id=1
        d0 collective {0} 10-60 id=2 bytes=8
        d1 compute a 0-40 id=1
        d1 collective {0} 40-60 id=2 bytes=8
        depends 0 1 2
        depends 1 1 2)",
                       operation);
  };
  EXPECT_EQ(replayed(text("all-reduce")).predicted_us(), 60);
  EXPECT_EQ(replayed(text("all-reduce"), {"straggler=none"}).predicted_us(),
            30);
  EXPECT_EQ(replayed(text("broadcast")).predicted_us(), 90);
}

TEST(TraceReplay, UntimedReceivesThatLastLongerThanTheirSendsWaited) {
  // Rank 1 has nothing to do until what rank 0 sends for 5 is there.
  const char* const text = R"(untimed
      d0 compute a 0-40 id=1
      d0 collective send 40-45 id=2 bytes=8 peer=1
      d1 collective receive 0-45 id=1 bytes=8 peer=0
      d1 compute b 45-55 id=2
      depends 0 1 2
      depends 1 1 2)";
  EXPECT_EQ(replayed(text).predicted_us(), 55);
}

// Two ranks whose two all-reduces follow each other; the second is of what b
// computed. Nothing was recorded of streams' waits.
std::string two_buckets(std::string_view b_issued) {
  std::string text;
  for (int rank = 0; rank < 2; ++rank) {
    text += fmt::format(
        "h{0} runtime cudaLaunchKernel 0-1 #1\n"
        "h{0} runtime cudaLaunchKernel {1} #2\n"
        "h{0} runtime cudaLaunchKernel 4-5 #3\n"
        "h{0} runtime cudaLaunchKernel 8-9 #4\n"
        "h{0} runtime cudaLaunchKernel 10-11 #5\n"
        "d{0} compute a 10-1010 #1\n"
        "d{0} compute b 1010-4010 #2\n"
        "d{0}x collective all-reduce 1010-5010 bytes=4000000 #3\n"
        "d{0}x collective all-reduce 5010-9010 bytes=4000000 #4\n"
        "d{0} compute c 9012-9020 #5\n",
        rank, b_issued);
  }
  return text;
}

TEST(TraceReplay, CollectivesWaitForWhatWasLaunchedBeforeThem) {
  // The second begins when b is done, at 4010, and takes 1000 and its latency.
  const std::string text = two_buckets("6-7");
  EXPECT_EQ(replayed(text).predicted_us(), 9020);
  EXPECT_EQ(replayed(text, {"bandwidth=4x"}).predicted_us() / 10, 5025 / 10);
  // b is launched before the first, which did not wait for it: the next may not
  // either.
  const std::string apart = two_buckets("2-3");
  EXPECT_LT(replayed(apart, {"bandwidth=4x"}).predicted_us(), 4030);
}

TEST(TraceReplay, BandwidthDoesNotShortenWaitsForRanksThatAreNotThere) {
  // Of three ranks two were recorded; for the third they wait 900 in the first
  // all-reduce.
  const std::string text = R"(
    d0 compute a 0-10
    d0 collective all-reduce 10-1010 bytes=4000000 ranks=3
    d0 collective all-reduce 1010-1110 bytes=4000000 ranks=3
    d1 compute a 0-10
    d1 collective all-reduce 10-1010 bytes=4000000 ranks=3
    d1 collective all-reduce 1010-1110 bytes=4000000 ranks=3)";
  EXPECT_EQ(replayed(text).predicted_us(), 1110);
  // Of 100 each, what is no latency halves.
  EXPECT_EQ(replayed(text, {"bandwidth=2x"}).predicted_us() / 20, 1010 / 20);
}

TEST(TraceReplay, RefusesWhatATraceDoesNotHold) {
  EXPECT_EQ(refusal(kDeviceBound, "op:conv=2x"),
            "--what-if op:conv: no event's name matches");
  EXPECT_NE(refusal(kDeviceBound, "bandwidth=2x"), "");
  EXPECT_NE(refusal(kDeviceBound, "overlap=ideal"), "");
  EXPECT_NE(refusal(kDeviceBound, "straggler=none"), "");
  EXPECT_NE(refusal(kDeviceBound, "rank:3=2x"), "");
  EXPECT_NE(refusal("h0 host-op a 0-10", "launch=0"), "");
  EXPECT_NE(refusal("h0 host-op a 0-10", "device=2x"), "");
  EXPECT_NE(refusal("d0 compute a 0-10", "host=2x"), "");
}

// Rank 0 waits in its graph for rank 1's: a faster device would not halve it.
TEST(TraceReplay, RefusesWhatWholeCudaGraphsHide) {
  const std::string text = R"(
    h0 runtime cudaGraphLaunch 0-10 #1
    d0 compute CUDA_graph_1 15-200 #1
    h1 runtime cudaGraphLaunch 80-90 #1
    d1 compute CUDA_graph_1 95-200 #1)";
  Trace trace = parse_trace_text(text);
  for (std::string& name : trace.strings)
    std::replace(name.begin(), name.end(), '_', ' ');
  for (const char* what_if : {"device=0.5x", "straggler=none", "bandwidth=2x"})
    EXPECT_NE(refusal(trace, what_if).find("traced whole"), std::string::npos);
  EXPECT_EQ(refusal(trace, "host=0.5x"), "");
}

TEST(TraceReplay, PlacesEventsOfAChangedTimeline) {
  const Replayed slow = replayed(kDeviceBound, {"device=2x"});
  const ReplayTimeline timeline =
      replay_timeline(slow.trace, slow.graph, slow.replay);
  const auto spans = [&](const Trace& trace, const std::string& name) {
    for (const Event& event : trace.events) {
      if (trace.text(event.name) == name) {
        return std::pair(event.start_ns / 1000, event.end_ns / 1000);
      }
    }
    return std::pair<int64_t, int64_t>();
  };
  using Span = std::pair<int64_t, int64_t>;
  EXPECT_EQ(spans(timeline.recorded, "k2"), Span(120, 220));
  EXPECT_EQ(spans(timeline.predicted, "k1"), Span(15, 215));
  EXPECT_EQ(spans(timeline.predicted, "k2"), Span(220, 420));
  EXPECT_EQ(spans(timeline.predicted, "cudaDeviceSynchronize"), Span(20, 430));
  for (uint32_t event = 0; event < slow.trace.events.size(); ++event) {
    const uint32_t place = timeline.predicted_place[event];
    ASSERT_NE(place, ReplayTimeline::kNoEvent);
    EXPECT_EQ(timeline.predicted.events[place].name,
              slow.trace.events[event].name);
  }
}

// Three ranks call in groups of two, and nothing says which.
Trace unmatched_calls() {
  Trace trace = parse_trace_text(R"(
    d0 compute k 0-10
    d0 collective all-reduce 10-30
    d1 compute k 0-10
    d1 collective all-reduce 10-30
    d2 compute k 0-10
    d2 collective all-reduce 10-30
  )");
  for (CollectiveInfo& info : trace.collectives) {
    info.communicator.clear();
    info.group.clear();
    info.group_size = 2;
  }
  return trace;
}

TEST(TraceReplay, SaysThatNothingTellsWhoMeetsInACollective) {
  const std::string refused = refusal(unmatched_calls(), "bandwidth=2x");
  EXPECT_TRUE(refused.starts_with(
      "--what-if bandwidth or latency: nothing tells which ranks meet in the "
      "trace's 3 collectives"))
      << refused;
  EXPECT_TRUE(refusal("d0 compute k 0-10", "bandwidth=2x")
                  .ends_with("the trace has no collectives"));
}

// Half of the 10 that a kernel takes, and 20 of a collective.
TEST(TraceReplay, CollectivesThatNothingMatchesAreNoWorkOfADevice) {
  EXPECT_EQ(replayed(unmatched_calls(), {"device=0.5x"}).predicted_us(), 25);
  EXPECT_EQ(replayed(unmatched_calls(), {"rank:1=2x"}).predicted_us(), 40);
}

}  // namespace
}  // namespace reprise
