#include "replay/simulate/decide.h"

#include <gtest/gtest.h>

#include <random>

#include "replay/graph/schedule_graph.h"
#include "replay/graph/trace_graph.h"
#include "tests/replay/graph/trace_text.h"
#include "tests/replay/simulate/schedule_text.h"

namespace reprise {
namespace {

void expect_equal(const GraphTimes& decided, const GraphTimes& evaluated) {
  EXPECT_EQ(decided.start_ns, evaluated.start_ns);
  EXPECT_EQ(decided.end_ns, evaluated.end_ns);
  EXPECT_EQ(decided.finish_ns, evaluated.finish_ns);
}

TimedGraph graph_of(const Trace& trace) {
  Result<TimedGraph> graph =
      build_trace_graph(AlignedTrace::as_recorded(trace));
  EXPECT_TRUE(graph.has_value());
  return graph ? *std::move(graph) : TimedGraph{};
}

class DecidedSchedule : public ::testing::TestWithParam<int> {};

// Every rule of a step but slow-down, with units that last: where none does,
// the order of events at one time is the simulation's own.
TEST_P(DecidedSchedule, IsEvaluatedAsDecidedWhereNothingContends) {
  std::mt19937 random(static_cast<uint32_t>(GetParam()));
  const auto pick = [&](int low, int high) {
    return low +
           static_cast<int>(random() % static_cast<uint32_t>(high - low + 1));
  };
  std::string text;
  const bool grouped = pick(0, 3) == 0;
  const int units = pick(1, 40);
  for (int unit = 0; unit < units; ++unit) {
    const bool compute = pick(0, 2) > 0;
    text += fmt::format("{} u{} {}", compute ? "compute" : "transfer", unit,
                        pick(1, 2000));
    if (!compute && grouped) {
      text += pick(0, 1) == 0 ? " groups 0,2;1,3" : " groups 0,1;2,3";
    }
    if (unit > 0) text += fmt::format(" after u{}", pick(0, unit - 1));
    text += "\n";
  }
  TextSchedule schedule;
  parse_schedule(text, 4, schedule);
  PricedSchedule& priced = schedule.priced;
  if (pick(0, 1) == 0) priced.rank_factor = {1, 1.3, 1, 1.7};
  priced.dispatch_ns = pick(0, 10);
  priced.compute_wake_ns = pick(0, 50) * 1.37;
  priced.communication_wake_ns = pick(0, 13);
  priced.communication_gap_ns = pick(0, 2);
  priced.jitter_sqrt_ns = pick(0, 3);
  priced.feed_ns = pick(0, 100);
  priced.unexplained_ns = pick(0, 40);
  priced.step_overhead_ns = pick(0, 9);
  priced.burst_ns = pick(0, 1) * 300;
  for (size_t unit = 0; unit < priced.wire_ns.size(); ++unit) {
    priced.wire_ns[unit] = priced.duration_ns[unit] * 0.8;
    priced.floor_ns[unit] = priced.duration_ns[unit] * 0.1;
  }
  const TimedGraph graph = schedule_graph(priced, fold_ranks(priced));
  const GraphTimes decided = decide(graph), evaluated = evaluate(graph);
  expect_equal(decided, evaluated);
  EXPECT_EQ(decided.begun_ns, evaluated.begun_ns);
  EXPECT_EQ(decided.cause, evaluated.cause);
}

INSTANTIATE_TEST_SUITE_P(Seeds, DecidedSchedule, ::testing::Range(0, 300));

// Two ranks: a kernel each, then a collective that lasts 40 us after the later
// one, beside a kernel that runs from 10 (or 20) for 60 us.
constexpr std::string_view kOverlap = R"(
    d0a compute k 0-10
    d0b collective all-reduce 10-60
    d0a compute k 10-70
    d1a compute k 0-20
    d1b collective all-reduce 20-60
    d1a compute k 20-80)";

TEST(Decide, GivesAnImportedTraceTheTimesOfEvaluate) {
  const TimedGraph graph = graph_of(parse_trace_text(kOverlap));
  expect_equal(decide(graph), evaluate(graph));
}

// What computing and communicating at once costs in the graph of a trace.
TEST(Decide, SlowsTheWorkOfAnImportedTraceWhileBothAreBusy) {
  const Trace trace = parse_trace_text(kOverlap);
  TimedGraph graph = graph_of(trace);
  for (size_t node = 0; node < graph.size(); ++node) {
    graph.slowdown.push_back(graph.collective[node] >= 0 ? kAlone : 2 * kAlone);
  }
  // The transfer takes 20-60. Rank 0's second kernel has done 10 of its 60 us
  // by 20, does 20 until 60 and the rest alone: 90. Rank 1's begins with it:
  // 20 of 60 until 60, 100.
  const GraphTimes times = decide(graph);
  for (size_t node = 0; node < graph.size(); ++node) {
    const Event& event = trace.events[graph.origin[node]];
    if (event.end_ns == 70'000) {
      EXPECT_EQ(times.end_ns[node], 90'000);
    }
    if (event.end_ns == 80'000) {
      EXPECT_EQ(times.end_ns[node], 100'000);
    }
    if (event.end_ns == 60'000) {
      EXPECT_EQ(times.end_ns[node], 60'000);
    }
  }
}

// One rank, two collectives of one member each, at once on one link.
TEST(Decide, SharesALinkAmongTransfersOfAnImportedTrace) {
  const Trace trace = parse_trace_text(R"(
    d0a collective all-reduce 0-50
    d0b collective all-gather 10-50)");
  TimedGraph graph = graph_of(trace);
  ASSERT_EQ(graph.transfers.size(), 2u);
  graph.transfers[0] = {.latency_ns = 10'000, .absent_ns = 0, .link = 0};
  graph.transfers[1] = {.latency_ns = 10'000, .absent_ns = 0, .link = 0};
  // Each passes 10 us of latency. The first is alone on the wire 10-20 (10 of
  // 40 us), then both share it: the second needs 30, so both end at 80.
  const GraphTimes times = decide(graph);
  EXPECT_EQ(times.end_ns, (std::vector<int64_t>{80'000, 80'000}));
}

// List scheduling: three jobs of 10, 20 and 30 ns, ready at once, two at a
// time; what is free first takes the next.
TEST(Decide, RunsAsManyAsAResourceHolds) {
  TimedGraph graph;
  graph.ranks.push_back({});
  graph.origin = {0, 1, 2};
  graph.rank = {0, 0, 0};
  graph.resource = {0, 0, 0};
  graph.duration = {10, 20, 30};
  graph.gap = {0, 0, 0};
  graph.collective = {-1, -1, -1};
  graph.meeting = {1, 1, 1};
  graph.waits = {0, 0, 0};
  graph.first = {0, 0, 0, 0};
  graph.capacity = {2};
  EXPECT_EQ(decide(graph).end_ns, (std::vector<int64_t>{10, 20, 40}));
}

}  // namespace
}  // namespace reprise
