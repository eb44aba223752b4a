#include "replay/graph/trace_graph.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "replay/simulate/decide.h"
#include "replay/simulate/trace_replay.h"
#include "tests/replay/graph/trace_text.h"

namespace reprise {
namespace {

struct Built {
  Trace trace;
  TimedGraph graph;

  // Nodes of the event with a name, in the graph's order.
  std::vector<uint32_t> nodes(const std::string& name) const {
    std::vector<uint32_t> found;
    for (uint32_t node = 0; node < graph.size(); ++node) {
      if (trace.text(trace.events[graph.origin[node]].name) == name) {
        found.push_back(node);
      }
    }
    return found;
  }
  uint32_t node(const std::string& name) const {
    const std::vector<uint32_t> found = nodes(name);
    EXPECT_EQ(found.size(), 1u) << name;
    return found.empty() ? 0 : found[0];
  }
  std::vector<int64_t> durations_us(const std::string& name) const {
    std::vector<int64_t> found;
    for (const uint32_t node : nodes(name)) {
      found.push_back(graph.duration[node] / 1000);
    }
    return found;
  }
  int64_t gap_us(const std::string& name) const {
    return graph.gap[node(name)] / 1000;
  }
  // The kinds of the edges from one event's nodes to another's.
  std::string edges(const std::string& from, const std::string& to) const {
    const std::vector<uint32_t> sources = nodes(from);
    std::string kinds;
    for (const uint32_t node : nodes(to)) {
      for (uint32_t at = graph.first[node]; at < graph.first[node + 1]; ++at) {
        const TimedGraph::Edge& edge = graph.edges[at];
        if (std::count(sources.begin(), sources.end(), edge.from) == 0) {
          continue;
        }
        if (!kinds.empty()) kinds += ' ';
        kinds += name_of(edge.kind);
        if (edge.from_start) kinds += "*";
      }
    }
    return kinds;
  }
};

Built built(const std::string& text, const TraceWindow& window = {}) {
  Built result;
  result.trace = parse_trace_text(text);
  Result<TimedGraph> graph =
      build_trace_graph(AlignedTrace::as_recorded(result.trace), window);
  EXPECT_TRUE(graph) << (graph ? "" : graph.error().message);
  if (graph) result.graph = *std::move(graph);
  return result;
}

using Durations = std::vector<int64_t>;

TEST(TraceGraph, CutsAHostOpIntoTheStretchesBetweenItsChildren) {
  // outer itself: 0-20, 60-100; inner: 20-60.
  const Built trace = built(R"(
    h0 host-op outer 0-100
    h0 host-op inner 20-60
    h0 host-op after 130-140)");
  EXPECT_EQ(trace.durations_us("outer"), (Durations{20, 40}));
  EXPECT_EQ(trace.durations_us("inner"), Durations{40});
  EXPECT_EQ(trace.gap_us("after"), 30);
}

// Rounded to microseconds, what follows a call begins before it ended: it is no
// part of the call, which waits for a as it would.
TEST(TraceGraph, ACallEndsWhereWhatFollowsItBegins) {
  const Built trace = built(R"(
    h0 runtime cudaLaunchKernel 0-10 #1
    h0 runtime cudaStreamSynchronize 12-104 #2
    h0 host-op after 103-130
    d0 compute a 20-100 #1)");
  EXPECT_EQ(trace.edges("a", "cudaStreamSynchronize"), "synchronization");
  EXPECT_EQ(trace.durations_us("cudaStreamSynchronize"), Durations{3});
  EXPECT_EQ(trace.durations_us("after"), Durations{27});
}

TEST(TraceGraph, LetsOneLaunchOwnManyKernels) {
  const Built trace = built(R"(
    h0 runtime cudaGraphLaunch 0-10 #5
    d0 compute a 20-30 #5
    d0 compute b 31-40 #5
    d0 compute c 41-60 #5)");
  for (const char* kernel : {"a", "b", "c"}) {
    EXPECT_EQ(trace.edges("cudaGraphLaunch", kernel), "launch*") << kernel;
  }
  EXPECT_EQ(trace.edges("a", "b"), "stream");
  EXPECT_EQ(trace.edges("b", "c"), "stream");
}

TEST(TraceGraph, ToleratesMissingLaunchRecords) {
  const Built trace = built(R"(
    h0 runtime cudaLaunchKernel 0-10 #1
    d0 compute a 20-30 #1
    d0 compute b 30-40 #2)");
  EXPECT_EQ(trace.edges("a", "b"), "stream");
  ASSERT_EQ(trace.graph.notes.size(), 1u);
  EXPECT_TRUE(
      trace.graph.notes[0].starts_with("1 device events have no launch"))
      << trace.graph.notes[0];
}

TEST(TraceGraph, FollowsFromStartToStartWhereAStreamOverlaps) {
  const Built trace = built(R"(
    h0 runtime launch 0-10 #1
    h0 runtime launch 10-20 #2
    d0 compute a 20-100 #1
    d0 compute b 90-150 #2)");
  EXPECT_EQ(trace.edges("a", "b"), "stream*");
}

TEST(TraceGraph, RecomputesWhatASynchronizationWaited) {
  // The kernel ends at 95, the call returns 5 later: that is its own time.
  const Built trace = built(R"(
    h0 runtime cudaLaunchKernel 0-10 #1
    h0 runtime cudaDeviceSynchronize 12-100
    h0 host-op after 100-110
    d0 compute a 20-95 #1)");
  EXPECT_EQ(trace.durations_us("cudaDeviceSynchronize"), Durations{5});
  EXPECT_EQ(trace.edges("a", "cudaDeviceSynchronize"), "synchronization");
}

TEST(TraceGraph, LetsABlockingCopyWaitForItself) {
  const Built trace = built(R"(
    h0 runtime cudaMemcpyAsync 0-60 #1
    h0 host-op after 60-70
    d0 copy dtoh 20-58 #1)");
  EXPECT_EQ(trace.edges("cudaMemcpyAsync", "dtoh"), "launch*");
  EXPECT_EQ(trace.edges("dtoh", "cudaMemcpyAsync"), "synchronization");
  // Nothing where it begins, 2 us where it returns.
  EXPECT_EQ(trace.durations_us("cudaMemcpyAsync"), (Durations{0, 2}));
}

TEST(TraceGraph, InfersStreamWaitsFromCalls) {
  // The second stream is told to wait before its launch; it begins 3 us after
  // the first stream's work has ended.
  const Built trace = built(R"(
    h0 runtime cudaLaunchKernel 0-10 #1
    h0 runtime cudaEventRecord 10-12
    h0 runtime cudaStreamWaitEvent 12-14
    h0 runtime cudaLaunchKernel 14-20 #2
    d0 compute gradient 20-100 #1
    d0x compute reduce 103-150 #2)");
  EXPECT_EQ(trace.edges("gradient", "reduce"), "inferred");
  EXPECT_EQ(trace.gap_us("reduce"), 0);
}

TEST(TraceGraph, InfersWhatARecordedWaitOfAnUnknownEventFollows) {
  // The first stream waits for what was gathered, though another stream's
  // launch comes next and its own so late that times tell nothing.
  const Built trace = built(R"(
    h0 runtime cudaLaunchKernel 0-10 #1
    d0 synchronization wait 12-13 awaits=?
    h0 runtime cudaLaunchKernel 14-20 #2
    h0 host-op busy 20-200
    h0 runtime cudaLaunchKernel 200-210 #3
    d0x compute gather 20-100 #1
    d0y compute prefetch 30-60 #2
    d0 compute use 220-250 #3)");
  EXPECT_EQ(trace.edges("gather", "use"), "inferred");
  EXPECT_EQ(trace.edges("prefetch", "use"), "");
}

// Each use is told to wait by `call` when the gather of the next one has been
// issued, and the last two begin when all gathers have long ended. The first
// one begins 3 us after its own.
void expect_waits_in_turn(const std::string& call) {
  const Built trace = built(fmt::format(R"(
    h0 runtime cudaLaunchKernel 0-5 #1
    h0 runtime cudaLaunchKernel 6-10 #2
    h0 runtime {0} 11-12
    h0 runtime cudaLaunchKernel 13-15 #3
    h0 runtime cudaLaunchKernel 16-20 #4
    h0 runtime {0} 21-22
    h0 runtime cudaLaunchKernel 23-25 #5
    h0 runtime {0} 26-27
    h0 runtime cudaLaunchKernel 28-30 #6
    d0x collective all-gather 20-40 #1 ranks=2
    d0x collective all-gather 42-62 #2 ranks=2
    d0x collective all-gather 64-84 #4 ranks=2
    d0 compute use 43-143 #3
    d0 compute use 144-244 #5
    d0 compute use 245-345 #6)",
                                        call));
  const std::vector<uint32_t> gathers = trace.nodes("all-gather");
  const std::vector<uint32_t> uses = trace.nodes("use");
  ASSERT_EQ(gathers.size(), 3U);
  ASSERT_EQ(uses.size(), 3U);
  for (size_t turn = 0; turn < uses.size(); ++turn) {
    std::vector<uint32_t> awaited;
    for (uint32_t at = trace.graph.first[uses[turn]];
         at < trace.graph.first[uses[turn] + 1]; ++at) {
      const TimedGraph::Edge edge = trace.graph.edges[at];
      if (edge.kind == EdgeKind::kInferred) awaited.push_back(edge.from);
    }
    EXPECT_EQ(awaited, std::vector<uint32_t>{gathers[turn]}) << call << turn;
  }
}

TEST(TraceGraph, WorkWaitsInTurnForWhatWasPrefetched) {
  expect_waits_in_turn("cudaStreamWaitEvent");
}

TEST(TraceGraph, BarriersOfIntelsRuntimeMakeQueuesWait) {
  for (const char* call :
       {"urEnqueueEventsWaitWithBarrier", "urEnqueueEventsWaitWithBarrierExt",
        "zeCommandListAppendBarrier", "zeCommandListAppendWaitOnEvents"}) {
    expect_waits_in_turn(call);
  }
}

// Three launches from `at` on whose work begins 20 us after each: what is
// typical of the rank, so that longer ones ask for another reason.
std::string quick_launches(int at, int correlation) {
  std::string text;
  for (int turn = 0; turn < 3; ++turn) {
    const int from = at + 50 * turn;
    text += fmt::format("h0 runtime cudaLaunchKernel {}-{} #{}\n", from,
                        from + 10, correlation + turn);
    text += fmt::format("d0 compute quick {}-{} #{}\n", from + 20, from + 30,
                        correlation + turn);
  }
  return text;
}

// Work on a second stream that waits for the first one's, `count` times; it
// begins 30 us after that has ended.
std::string recorded_waits(int count) {
  std::string text;
  for (int turn = 0; turn < count; ++turn) {
    const int at = 1000 * turn, call = 10 * turn + 1;
    text += fmt::format("h0 runtime cudaLaunchKernel {}-{} #{}\n", at, at + 10,
                        call);
    text += fmt::format("d0x synchronization wait {}-{} awaits=d0\n", at + 12,
                        at + 13);
    text += fmt::format("h0 runtime cudaLaunchKernel {}-{} #{}\n", at + 14,
                        at + 20, call + 1);
    text += fmt::format("d0 compute a{} {}-{} #{}\n", turn, at + 20, at + 100,
                        call);
    text += fmt::format("d0x compute b{} {}-{} #{}\n", turn, at + 130, at + 150,
                        call + 1);
    text += quick_launches(at + 200, call + 2);
  }
  return text;
}

TEST(TraceGraph, MeasuresWhatAWaitTakesWhereWaitsWereRecorded) {
  const Built many = built(recorded_waits(20));
  EXPECT_EQ(many.edges("a7", "b7"), "event");
  EXPECT_EQ(many.gap_us("b7"), 0);
  // Of three, which tell nothing, 30 us are more than is assumed.
  const Built few = built(recorded_waits(3));
  EXPECT_EQ(few.edges("a1", "b1"), "event");
  EXPECT_EQ(few.gap_us("b1"), 30);
}

TEST(TraceGraph, SaysWhatItAssumes) {
  // b may have waited for a, which its call and the time between suggest.
  const Built waits = built(R"(
    h0 runtime cudaLaunchKernel 0-10 #1
    h0 runtime cudaLaunchKernel 14-20 #2
    d0 compute a 20-100 #1
    d0x compute b 109-150 #2
)" + quick_launches(200, 3));
  EXPECT_EQ(waits.edges("a", "b"), "inferred");
  ASSERT_EQ(waits.graph.notes.size(), 1u);
  EXPECT_TRUE(waits.graph.notes[0].starts_with("1 waits of a stream"))
      << waits.graph.notes[0];
  // One size of one operation of two ranks: 6.6 us and two hops of 0.6 us.
  const std::string one = R"(
    h0 host-op begin 0-5
    h1 host-op begin 0-5
    d0 collective all-reduce 10-60 bytes=4096
    d1 collective all-reduce 10-60 bytes=4096)";
  const Built assumed = built(one);
  ASSERT_EQ(assumed.graph.transfers.size(), 1u);
  EXPECT_EQ(assumed.graph.transfers[0].latency_ns, 7800);
  EXPECT_TRUE(assumed.graph.notes.back().ends_with("(NCCL's own model)."))
      << assumed.graph.notes.back();
}

TEST(TraceGraph, CallsOfIntelsRuntimeWaitForTheDevice) {
  for (const std::string call : {"urQueueFinish", "zeEventHostSynchronize"}) {
    const Built trace = built(
        "h0 runtime urEnqueueKernelLaunch 0-10 #1\n"
        "d0 compute a 20-100 #1\n"
        "h0 runtime " +
        call + " 12-103 #2");
    EXPECT_EQ(trace.edges("a", call), "synchronization") << call;
    EXPECT_EQ(trace.durations_us(call), Durations{3}) << call;
  }
}

// One call launches a graph of two streams: within it c waits for r, as r for
// a.
TEST(TraceGraph, StreamsOfOneGraphLaunchWaitForEachOther) {
  const Built trace = built(R"(
    h0 runtime cudaGraphLaunch 0-10 #5
    d0a compute a 20-100 #5
    d0b collective r 102-200 bytes=1000 #5
    d0a compute b 101-150 #5
    d0a compute c 202-300 #5)");
  EXPECT_EQ(trace.edges("a", "r"), "inferred");
  EXPECT_EQ(trace.edges("r", "c"), "inferred");
  EXPECT_EQ(trace.edges("b", "r"), "");
}

TEST(TraceGraph, LetsAThreadWaitForAnother) {
  // The main thread falls idle at 100, the other one wakes at 110 and is done
  // at 300, when the main thread goes on.
  const Built trace = built(R"(
    h0 host-op forward 0-100
    h0 host-op step 310-350
    h0a host-op backward 110-300)");
  EXPECT_EQ(trace.edges("forward", "backward"), "handoff");
  EXPECT_EQ(trace.edges("backward", "step"), "handoff");
  EXPECT_EQ(trace.gap_us("step"), 10);
}

TEST(TraceGraph, LetsAThreadWaitForACollectiveThatBeganBefore) {
  // Gloo's own threads reduce two buckets while the backward pass goes on; the
  // main thread then waits for both.
  const Built trace = built(R"(
    h0 host-op backward 0-100
    h0 host-op optimizer 900-950
    h0a collective all-reduce 60-700
    h0b collective all-gather 90-890)");
  EXPECT_EQ(trace.edges("all-gather", "optimizer"), "handoff");
  EXPECT_EQ(trace.edges("all-reduce", "optimizer"), "");
  EXPECT_EQ(trace.gap_us("optimizer"), 10);
}

TEST(TraceGraph, LetsAThreadWaitForACollectiveThatAnotherFollowsAtOnce) {
  // The main thread waits for the first bucket; the worker takes the next one
  // 5 us after it, and another thread's lasts on.
  const Built trace = built(R"(
    h0 host-op backward 0-100
    h0 host-op copy 710-750
    h0a collective all-reduce 60-700
    h0a collective reduce-scatter 705-990
    h0b collective all-gather 90-890)");
  EXPECT_EQ(trace.edges("all-reduce", "copy"), "handoff");
  EXPECT_EQ(trace.gap_us("copy"), 10);
}

TEST(TraceGraph, LetsAThreadWaitForOneThatWaitedItself) {
  // In the 810 us between two passes of the autograd thread the main thread
  // works for 290 and waits for an all-reduce for the rest.
  const Built trace = built(R"(
    h0 host-op forward 0-100
    h0a host-op backward 110-200
    h0b collective all-reduce 200-700
    h0 host-op optimizer 710-900
    h0 host-op next_forward 900-1000
    h0a host-op next_backward 1010-1100)");
  EXPECT_EQ(trace.edges("all-reduce", "optimizer"), "handoff");
  EXPECT_EQ(trace.edges("next_forward", "next_backward"), "handoff");
  EXPECT_EQ(trace.gap_us("next_backward"), 10);
}

TEST(TraceGraph, LetsACollectiveFollowFromTheCallThatStillRuns) {
  // Gloo begins while PyTorch's call of it is under way, late for what the main
  // thread did before: it would be the cause if the call were not.
  const Built trace = built(R"(
    h0 host-op forward 0-100
    h0 host-op c10d::allreduce_ 500-580
    h0a collective all-reduce 540-700)");
  EXPECT_EQ(trace.edges("c10d::allreduce_", "all-reduce"), "handoff*");
  EXPECT_EQ(trace.edges("forward", "all-reduce"), "");
}

TEST(TraceGraph, LetsAThreadWorkWhileItsMessageIsUnderWay) {
  // Rank 0 posts from 40 on and works to 700, then awaits what rank 1 had at
  // 350; rank 1 did nothing but wait for it.
  const Built trace = built(R"(
    h0 host-op c10d::send 40-60
    h0 collective send 50-710 peer=1
    h0 host-op forward 100-700
    h0 host-op next 720-800
    h1 host-op c10d::recv_ 0-10
    h1 collective receive 10-350 peer=0
    h1 host-op backward 360-900)");
  EXPECT_EQ(trace.durations_us("forward"), Durations{600});
  EXPECT_EQ(trace.edges("c10d::send", "send"), "handoff*");
  EXPECT_EQ(trace.edges("send", "forward"), "");
  EXPECT_EQ(trace.edges("send", "next"), "handoff");
  EXPECT_EQ(trace.durations_us("send"), Durations{310});
  EXPECT_EQ(trace.durations_us("receive"), Durations{310});
  EXPECT_EQ(trace.edges("receive", "backward"), "handoff");
  EXPECT_EQ(trace.gap_us("next"), 20);
  EXPECT_EQ(trace.gap_us("backward"), 10);
}

TEST(TraceGraph, EndsAMessageThatNobodyAwaitedWithTheFirstRange) {
  // Both work to the end of their ranges: the data were there at 410.
  const Built trace = built(R"(
    h0 host-op c10d::send 40-60
    h0 collective send 50-410 peer=1
    h0 host-op forward 60-400
    h1 host-op c10d::recv_ 80-110
    h1 collective receive 100-810 peer=0
    h1 host-op backward 110-800)");
  EXPECT_EQ(trace.durations_us("send"), Durations{330});
  EXPECT_EQ(trace.durations_us("receive"), Durations{330});
}

TEST(TraceGraph, EndsAMessageWhenItCameWhoeverIdledLater) {
  // Rank 1 stood still before three messages were sent, 100 us each. The fourth
  // came while it worked: what it idles for 120 us then is no wait.
  const Built trace = built(R"(
    h0 collective send 500-510 peer=1
    h0 collective send 1500-1510 peer=1
    h0 collective send 2500-2510 peer=1
    h0 collective send 3500-9000 peer=1
    h1 host-op c10d::recv_ 0-10
    h1 collective receive 10-600 peer=0
    h1 host-op c10d::recv_ 1000-1010
    h1 collective receive 1010-1600 peer=0
    h1 host-op c10d::recv_ 2000-2010
    h1 collective receive 2010-2600 peer=0
    h1 host-op c10d::recv_ 3000-3010
    h1 collective receive 3010-8120 peer=0
    h1 host-op forward 3020-8000
    h1 host-op next 8130-8200)");
  EXPECT_EQ(trace.durations_us("receive"), (Durations{100, 100, 100, 100}));
  EXPECT_EQ(trace.durations_us("send").back(), 100);
  EXPECT_EQ(trace.gap_us("next"), 130);
}

TEST(TraceGraph, CutsWhatAnOperatorWaitsOutOfIt) {
  // Autograd's engine waits from 100 to 890 in a hook, and works for 10 us
  // then; a known wait is over 30 us after its collective.
  const Built trace = built(R"(
    h0 host-op autograd::engine::evaluate_function:Linear 0-1000
    h0 host-op aten::mm 0-100
    h0 host-op aten::copy_ 900-1000
    h0 host-op _c10d_functional::wait_tensor 1000-1300
    h0a collective all-reduce 60-890
    h0a collective all-gather 1010-1270)");
  constexpr const char* kHook = "autograd::engine::evaluate_function:Linear";
  EXPECT_EQ(trace.durations_us(kHook), Durations{10});
  EXPECT_EQ(trace.edges("all-reduce", kHook), "handoff");
  EXPECT_EQ(trace.gap_us(kHook), 0);
  EXPECT_EQ(trace.durations_us("_c10d_functional::wait_tensor"), Durations{0});
  EXPECT_EQ(trace.edges("all-gather", "_c10d_functional::wait_tensor"),
            "handoff");
  EXPECT_EQ(trace.gap_us("_c10d_functional::wait_tensor"), 30);
}

TEST(TraceGraph, WakesWhoWaitsForWorkWhenTheLastOfItEnds) {
  // The other threads worked for 60 of 500 us.
  Trace trace = parse_trace_text(R"(
    h0 host-op launch 0-10
    h0 host-op Wait~for~completion 10-510
    h0a host-op fusion 450-500
    h0b host-op copy 420-430)");
  for (std::string& name : trace.strings) {
    std::replace(name.begin(), name.end(), '~', ' ');
  }
  Built result;
  result.trace = std::move(trace);
  result.graph =
      build_trace_graph(AlignedTrace::as_recorded(result.trace), {}).value();
  EXPECT_EQ(result.edges("fusion", "Wait for completion"), "handoff");
  EXPECT_EQ(result.gap_us("Wait for completion"), 10);
}

TEST(TraceGraph, GuessesNoHandoffWhereADependencyTellsWhatAThreadWaitedFor) {
  // The task was handed over at 20; another thread fell idle when it began.
  const Built trace = built(R"(
    h0 host-op launch 0-100
    h0 host-op hand 20-20 id=1
    h0a host-op other 30-200
    h0b host-op before 0-10
    h0b host-op task 210-300 id=2
    depends 0 1 2)");
  EXPECT_EQ(trace.edges("hand", "task"), "dependency");
  EXPECT_EQ(trace.edges("other", "task"), "");
}

TEST(TraceGraph, LeavesWhatAThreadDoesBeyondAStepOutOfIt) {
  const Built trace = built(R"(
    step 0 1 0-100
    h0 host-op forward 0-95
    h0a host-op tidy 90-180
    h0b collective all-reduce 80-150)");
  EXPECT_EQ(trace.graph.step[trace.node("forward")], 0);
  EXPECT_EQ(trace.graph.step[trace.node("tidy")], -1);
  const uint32_t all_reduce = trace.node("all-reduce");
  EXPECT_EQ(trace.graph.step[all_reduce], 0);
  EXPECT_EQ(trace.graph.steps[0].end_ns, 100'000);
  ASSERT_EQ(trace.graph.beyond_ns.size(), 1U);
  EXPECT_EQ(trace.graph.beyond_ns[0], std::pair(all_reduce, int64_t{50'000}));
}

TEST(TraceGraph, NamesTimeWithinRangesButNotTheStep) {
  // 20-40 lies in a range, 40-50 in the step alone.
  const Built trace = built(R"(
    step 0 1 0-200
    h0 annotation ProfilerStep#1 0-200
    h0 host-op a 0-20
    h0 annotation loading 20-40
    h0 host-op b 50-60)");
  EXPECT_EQ(trace.gap_us("b"), 30);
  EXPECT_EQ(trace.graph.named[trace.node("b")], 20'000);
  // Whatever is open when it ends, a step ends where it was marked.
  const uint32_t mark = trace.node("ProfilerStep#1");
  EXPECT_EQ(evaluate(trace.graph).end_ns[mark], 200'000);
}

TEST(TraceGraph, EndsAStepWithinARangeThatOutlivesIt) {
  const Built trace = built(R"(
    step 0 1 0-200
    h0 annotation ProfilerStep#1 0-200
    h0 annotation frame 10-400
    h0 host-op a 20-40
    h0 host-op b 380-390)");
  const uint32_t mark = trace.node("ProfilerStep#1");
  EXPECT_EQ(evaluate(trace.graph).end_ns[mark], 200'000);
  EXPECT_EQ(trace.graph.steps[0].end_ns, 200'000);
}

constexpr const char* kTwoRanks = R"(
    h0 runtime cudaLaunchKernel 0-10 #1
    h1 runtime cudaLaunchKernel 0-10 #1
    d0 collective all-reduce 20-80 #1 bytes=1000
    d1 collective all-reduce 70-80 #1 bytes=1000)";

TEST(TraceGraph, TellsWaitFromTransfer) {
  const Built trace = built(kTwoRanks);
  // Both transfer for 10 us; rank 0 waited for 50.
  EXPECT_EQ(trace.durations_us("all-reduce"), (Durations{10, 10}));
  const std::vector<uint32_t> nodes = trace.nodes("all-reduce");
  EXPECT_EQ(nodes[1], nodes[0] + 1);
  EXPECT_EQ(trace.graph.meeting[nodes[0]], 2u);
  EXPECT_EQ(trace.graph.meeting[nodes[1]], 0u);
}

TEST(TraceGraph, KeepsToTheChosenStep) {
  const std::string two_steps = R"(
    step 0 1 0-100
    step 0 2 100-200
    h0 runtime launch 10-20 #1
    h0 runtime launch 110-120 #2
    d0 compute first 80-130 #1
    d0 compute second 130-160 #2)";
  const Built second = built(two_steps, {.step = 2});
  // What was under way is cut where the step begins.
  EXPECT_EQ(second.durations_us("first"), Durations{30});
  EXPECT_EQ(second.durations_us("second"), Durations{30});
  const Built first = built(two_steps, {.step = 1});
  EXPECT_EQ(first.durations_us("first"), Durations{50});
  EXPECT_TRUE(first.nodes("second").empty());
}

TEST(TraceGraph, RefusesStepsThatAreNotThereAndEmptyTraces) {
  Trace trace = parse_trace_text("step 0 3 0-9\nh0 host-op a 0-9");
  Result<TimedGraph> graph =
      build_trace_graph(AlignedTrace::as_recorded(trace), {.step = 4});
  ASSERT_FALSE(graph);
  EXPECT_EQ(graph.error().message, "step 4: the trace has steps 3 to 3");
  trace.events.clear();
  EXPECT_FALSE(build_trace_graph(AlignedTrace::as_recorded(trace)));
}

TEST(TraceGraph, OpensCyclesOfRecordedDependencies) {
  const Built trace = built(R"(
    untimed
    h0 compute a 0-10 id=1
    h0 compute b 0-10 id=2
    h0 compute c 0-10 id=3
    depends 0 1 2
    depends 0 2 3
    depends 0 3 1)");
  EXPECT_EQ(trace.graph.cycles_repaired, 1);
  EXPECT_EQ(trace.graph.size(), 3u);
}

TEST(TraceGraph, SendsDoNotHoldUpReceivesAroundARing) {
  // Each of three ranks sends on and only then receives: no cycle, no repair.
  Trace trace = parse_trace_text(R"(
    untimed
    d0 compute work 0-10 id=0
    d1 compute work 0-10 id=0
    d2 compute work 0-10 id=0)");
  for (uint32_t rank = 0; rank < 3; ++rank) {
    for (const bool sends : {true, false}) {
      Event event;
      event.rank = rank;
      event.stream = rank;
      event.kind = EventKind::kCollective;
      event.name = StringId{static_cast<uint32_t>(trace.strings.size())};
      trace.strings.push_back(sends ? "send" : "receive");
      event.end_ns = 5'000;
      event.bytes = 8;
      event.external_id = sends ? 1 : 2;
      event.detail = static_cast<int32_t>(trace.collectives.size());
      const uint32_t peer = (rank + (sends ? 1 : 2)) % 3;
      CollectiveInfo info;
      info.kind = sends ? CollectiveKind::kSend : CollectiveKind::kReceive;
      info.peer = static_cast<int32_t>(peer);
      trace.collectives.push_back(info);
      trace.events.push_back(event);
    }
  }
  for (uint32_t rank = 0; rank < 3; ++rank) {
    trace.dependencies.push_back({rank, 1, 2});
  }
  std::stable_sort(
      trace.events.begin(), trace.events.end(),
      [](const Event& a, const Event& b) { return a.rank < b.rank; });
  const Result<TimedGraph> graph =
      build_trace_graph(AlignedTrace::as_recorded(trace));
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ(graph->cycles_repaired, 0);
  int messages = 0;
  for (size_t at = 0; at < graph->edges.size(); ++at) {
    const TimedGraph::Edge edge = graph->edges[at];
    messages += edge.kind == EdgeKind::kDependency && edge.from_start ? 1 : 0;
  }
  EXPECT_EQ(messages, 3);
}

// A trace with anything in any field, as a file might hold.
Trace random_trace(uint32_t seed) {
  std::mt19937 random(seed);
  const auto below = [&](uint32_t limit) {
    return static_cast<uint32_t>(random() % limit);
  };
  Trace trace = parse_trace_text(R"(
    h0 host-op ProfilerStep#1 0-1
    h0a runtime cudaLaunchKernel 0-1
    d0 compute cudaStreamWaitEvent 0-1
    d0a collective cudaDeviceSynchronize 0-1
    h1 runtime cudaMemcpy 0-1
    d1 collective cudaFree 0-1)");
  trace.events.clear();
  const uint32_t events = 5 + below(60);
  for (uint32_t i = 0; i < events; ++i) {
    Event event;
    event.stream = below(static_cast<uint32_t>(trace.streams.size()));
    event.rank = trace.streams[event.stream].rank;
    event.kind = static_cast<EventKind>(
        below(static_cast<uint32_t>(kLastEventKind) + 1));
    event.name = StringId{below(static_cast<uint32_t>(trace.strings.size()))};
    event.start_ns = below(40) * 1000;
    event.end_ns = event.start_ns + below(30) * 1000;
    if (below(50) == 0) event.end_ns = std::numeric_limits<int64_t>::max();
    if (below(50) == 0) event.start_ns = std::numeric_limits<int64_t>::min();
    event.correlation = static_cast<int64_t>(below(8)) - 1;
    event.external_id = static_cast<int64_t>(below(12)) - 1;
    event.detail = event.kind == EventKind::kCollective
                       ? static_cast<int32_t>(below(2))
                       : -1;
    trace.events.push_back(event);
  }
  std::stable_sort(trace.events.begin(), trace.events.end(),
                   [](const Event& a, const Event& b) {
                     return std::tie(a.rank, a.start_ns, a.stream) <
                            std::tie(b.rank, b.start_ns, b.stream);
                   });
  for (uint32_t i = below(20); i > 0; --i) {
    trace.dependencies.push_back({.rank = below(2),
                                  .before = static_cast<int64_t>(below(12)),
                                  .after = static_cast<int64_t>(below(12))});
  }
  std::stable_sort(
      trace.dependencies.begin(), trace.dependencies.end(),
      [](const auto& a, const auto& b) { return a.rank < b.rank; });
  for (const uint32_t rank : {0u, 1u}) {
    trace.steps.push_back(
        {.rank = rank, .step = 1, .start_ns = 0, .end_ns = 30'000});
    if (below(3) == 0) trace.ranks[rank].clock_domain = "none";
  }
  return trace;
}

TEST(TraceGraph, NeverHoldsACycleWhateverATraceSays) {
  for (uint32_t seed = 0; seed < 1500; ++seed) {
    const Trace trace = random_trace(seed);
    TraceWindow window;
    if (seed % 2 == 1) window.step = 1;
    const Result<TimedGraph> graph =
        build_trace_graph(AlignedTrace::as_recorded(trace), window);
    if (!graph) continue;
    ASSERT_EQ(graph->first.size(), graph->size() + 1) << seed;
    for (uint32_t node = 0; node < graph->size(); ++node) {
      for (uint32_t at = graph->first[node]; at < graph->first[node + 1];
           ++at) {
        ASSERT_LT(graph->edges[at].from, node) << seed;
      }
      ASSERT_GE(graph->duration[node], 0) << seed;
      ASSERT_GE(graph->gap[node], graph->named[node]) << seed;
    }
    const Result<TraceReplay> replay = replay_trace(trace, *graph);
    ASSERT_TRUE(replay) << seed;
    const GraphTimes decided = decide(*graph);
    ASSERT_EQ(decided.start_ns, replay->start_ns) << seed;
    ASSERT_EQ(decided.end_ns, replay->end_ns) << seed;
    int64_t covered_ns = 0;
    for (const PathEntry& entry : replay->critical_path) {
      ASSERT_GT(entry.duration_ns, 0) << seed;
      covered_ns += entry.duration_ns;
    }
    ASSERT_GE(covered_ns, 0) << seed;
  }
}

TEST(TraceGraph, DependenciesOfOtherStepsAreNotMissing) {
  const char* const text = R"(
    d0 compute a 0-10 id=1
    d0x compute b 12-20 id=2
    d0 compute a 100-110 id=3
    d0x compute b 112-120 id=4
    step 0 0 0-100
    step 0 1 100-200
    depends 0 1 2
    depends 0 3 4)";
  const auto tells = [&](const Built& one) {
    return std::any_of(one.graph.notes.begin(), one.graph.notes.end(),
                       [](const std::string& note) {
                         return note.find("name events that are not there") !=
                                note.npos;
                       });
  };
  EXPECT_FALSE(tells(built(text, {.step = 1})));
  EXPECT_TRUE(tells(built(std::string(text) + "\ndepends 0 3 9")));
}

}  // namespace
}  // namespace reprise
