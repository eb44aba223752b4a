// Ordering core: bounds, list scheduling, exact windows and search, against
// brute force on small random instances.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "optimizer/order/list_schedule.h"
#include "optimizer/order/order_bounds.h"
#include "optimizer/order/order_search.h"
#include "optimizer/order/order_window.h"
#include "replay/graph/evaluate.h"
#include "replay/simulate/decide.h"
#include "tests/optimizer/order/order_text.h"

namespace reprise {
namespace {

OrderGraph random_graph(uint32_t ops, uint32_t streams, uint64_t seed) {
  std::mt19937_64 random(seed);
  OrderInstance instance;
  instance.streams = streams;
  for (uint32_t op = 0; op < ops; ++op) {
    instance.stream.push_back(static_cast<uint32_t>(random() % streams));
    instance.duration.push_back(static_cast<int64_t>(random() % 20));
    for (uint32_t before = 0; before < op; ++before) {
      if (random() % 4 == 0) instance.dependencies.emplace_back(before, op);
    }
  }
  return *OrderGraph::make(std::move(instance));
}

/// True when the sequence names every op once and breaks no dependency.
bool is_valid_sequence(const OrderGraph& graph,
                       const std::vector<uint32_t>& sequence) {
  if (sequence.size() != graph.size()) return false;
  std::vector<uint32_t> place(graph.size(), graph.size());
  for (uint32_t i = 0; i < sequence.size(); ++i) {
    if (sequence[i] >= graph.size() || place[sequence[i]] != graph.size())
      return false;
    place[sequence[i]] = i;
  }
  const auto& dependencies = graph.instance().dependencies;
  return std::all_of(
      dependencies.begin(), dependencies.end(),
      [&](const auto& edge) { return place[edge.first] < place[edge.second]; });
}

/// The sequence as the graph that is replayed: an edge for each dependency and
/// one from the op before on the stream.
TimedGraph timed_graph(const OrderGraph& graph,
                       const std::vector<uint32_t>& sequence) {
  TimedGraph timed;
  timed.ranks.push_back({});
  std::vector<uint32_t> node_of(graph.size());
  std::map<uint32_t, uint32_t> last;  // [stream] node
  for (const uint32_t op : sequence) {
    const auto node = static_cast<uint32_t>(timed.origin.size());
    node_of[op] = node;
    timed.first.push_back(static_cast<uint32_t>(timed.edges.size()));
    for (const uint32_t before : graph.predecessors(op)) {
      timed.edges.push_back(
          {.from = node_of[before], .kind = EdgeKind::kDependency});
    }
    if (const auto found = last.find(graph.stream(op)); found != last.end()) {
      timed.edges.push_back({.from = found->second, .kind = EdgeKind::kStream});
    }
    last[graph.stream(op)] = node;
    timed.origin.push_back(op);
    timed.duration.push_back(graph.duration(op));
  }
  timed.first.push_back(static_cast<uint32_t>(timed.edges.size()));
  timed.rank.assign(sequence.size(), 0);
  timed.gap.assign(sequence.size(), 0);
  timed.collective.assign(sequence.size(), -1);
  timed.meeting.assign(sequence.size(), 1);
  timed.waits.assign(sequence.size(), 0);
  return timed;
}

// The search's own sweep of a sequence gives the times of both engines.
TEST(OrderGraph, StartsOpsWhenReplayDoes) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const OrderGraph graph =
        random_graph(30, 1 + static_cast<uint32_t>(seed % 4), seed);
    const OrderSolution solution = schedule_by_critical_path(graph);
    const TimedGraph timed = timed_graph(graph, solution.sequence);
    for (const GraphTimes& times : {decide(timed), evaluate(timed)}) {
      for (size_t node = 0; node < timed.size(); ++node) {
        const uint32_t op = timed.origin[node];
        EXPECT_EQ(times.start_ns[node], solution.start[op]) << seed;
        EXPECT_EQ(times.end_ns[node], solution.start[op] + graph.duration(op));
      }
    }
  }
}

/// Best makespan over every topological sequence that agrees with `fixed`
/// outside the window [first, first + count).
int64_t brute_force(const OrderGraph& graph, const std::vector<uint32_t>& fixed,
                    uint32_t first, uint32_t count) {
  std::vector<uint32_t> sequence = fixed;
  const auto begin = sequence.begin() + first, end = begin + count;
  std::sort(begin, end);
  int64_t best = std::numeric_limits<int64_t>::max();
  do {
    if (!is_valid_sequence(graph, sequence)) continue;
    best = std::min(best, evaluate_sequence(graph, sequence).makespan);
  } while (std::next_permutation(begin, end));
  return best;
}

TEST(OrderGraph, RefusesCyclesAndBadIndices) {
  EXPECT_FALSE(OrderGraph::make({2, {0, 1}, {1, 1}, {{0, 1}, {1, 0}}}));
  EXPECT_FALSE(OrderGraph::make({2, {0, 1}, {1, 1}, {{0, 2}}}));
  EXPECT_FALSE(OrderGraph::make({2, {0, 2}, {1, 1}, {}}));
  EXPECT_FALSE(OrderGraph::make({2, {0, 1}, {1, -1}, {}}));
  EXPECT_FALSE(OrderGraph::make({1, {0, 0}, {INT64_MAX, INT64_MAX}, {}}));
}

TEST(ListSchedule, StartsTheOpWithTheLongestTailFirst) {
  // Compute 0 (3) and 1 (2) are ready; 1 feeds communication 2 (10), so it goes
  // first: 2 + 10 = 12. The other order ends at 3 + 2 + 10 = 15.
  const OrderGraph graph = order_graph_from_text(
      "op 0 compute 3 op 1 compute 2 op 2 communication 10 dep 1 2");
  const OrderSolution solution = schedule_by_critical_path(graph);
  EXPECT_EQ(solution.sequence, (std::vector<uint32_t>{1, 0, 2}));
  EXPECT_EQ(solution.makespan, 12);
}

TEST(OrderBounds, JacksonCountsHeadsAndTails) {
  // Released at 0, 1, 2 with tails 0, 5, 6: run a in [0,1], b in [1,2], c in
  // [2,4], b in [4,5], a in [5,7]. Ends: c 4 + 6 = 10, b 5 + 5 = 10, a 7.
  const MachineJob jobs[] = {{0, 3, 0}, {1, 2, 5}, {2, 2, 6}};
  EXPECT_EQ(jackson_preemptive_bound(jobs), 10);
}

TEST(OrderBounds, NeverExceedTheOptimum) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const OrderGraph graph = random_graph(8, 2 + seed % 2, seed);
    const int64_t optimum = brute_force(graph, graph.topological(), 0, 8);
    const int64_t jackson = jackson_bound(graph);
    const int64_t pairs = destructive_bound(graph, 1000, {.shaving = false});
    const int64_t shaved = destructive_bound(graph, 1000);
    EXPECT_LE(jackson, set_bound(graph)) << seed;
    EXPECT_LE(set_bound(graph), optimum) << seed;
    EXPECT_LE(jackson, pairs) << seed;
    EXPECT_LE(pairs, shaved) << seed;
    EXPECT_LE(shaved, optimum) << seed;
  }
}

TEST(OrderWindow, EqualsBruteForceOfTheWindow) {
  for (uint64_t seed = 0; seed < 80; ++seed) {
    const OrderGraph graph = random_graph(14, 2, seed);
    const OrderSolution start = evaluate_sequence(graph, graph.topological());
    const uint32_t first = static_cast<uint32_t>(seed % 7);
    const WindowResult window = improve_window(graph, start, first, 7, 100000);
    const int64_t best = brute_force(graph, start.sequence, first, 7);
    EXPECT_TRUE(window.proved) << seed;
    ASSERT_EQ(window.better.has_value(), best < start.makespan) << seed;
    if (!window.better) continue;
    EXPECT_EQ(window.better->makespan, best) << seed;
    EXPECT_TRUE(is_valid_sequence(graph, window.better->sequence)) << seed;
  }
}

TEST(OrderSearch, FindsTheOptimumOfSmallInstances) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const OrderGraph graph = random_graph(8, 2, seed);
    const int64_t optimum = brute_force(graph, graph.topological(), 0, 8);
    const auto found = search_order(graph, {.evaluations = 40000});
    EXPECT_EQ(found.best.makespan, optimum) << seed;
    EXPECT_LE(found.lower_bound, optimum) << seed;
    EXPECT_TRUE(is_valid_sequence(graph, found.best.sequence)) << seed;
  }
}

TEST(OrderSearch, IsNeverWorseThanItsStart) {
  const OrderGraph graph = random_graph(40, 2, 5);
  const auto good = search_order(graph, {.evaluations = 40000});
  const auto again = search_order(graph, {.evaluations = 1, .windows = false},
                                  &good.best.sequence);
  EXPECT_LE(again.best.makespan, good.best.makespan);
}

TEST(OrderSearch, IsTheSameForAnyNumberOfThreads) {
  const OrderGraph graph = random_graph(40, 2, 11);
  const auto one = search_order(graph, {.evaluations = 60000, .threads = 1});
  const auto four = search_order(graph, {.evaluations = 60000, .threads = 4});
  EXPECT_EQ(one.best.sequence, four.best.sequence);
  EXPECT_EQ(one.evaluations, four.evaluations);
}

}  // namespace
}  // namespace reprise
