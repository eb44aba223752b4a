// A window sees the rest of the sequence as numbers: when each of its ops may
// start at the earliest (the prefix has run), what must follow its end (the
// suffix, backwards), and the longest path that avoids the window. If that path
// alone is as long as the incumbent, no order of the window helps. What the
// relaxation decides needs no search, and often it decides everything.
//
// Cost: O(ops + dependencies) around the window, then window_model.h.
#include "optimizer/order/order_window.h"

#include <algorithm>

#include "optimizer/order/pair_relaxation.h"
#include "optimizer/order/window_model.h"

namespace reprise {
namespace {

constexpr uint32_t kOutside = ~uint32_t{0};

/// Everything outside a window, seen from inside.
struct Surroundings {
  std::vector<int64_t> heads, tails;  ///< [op of the window]
  int64_t outside = 0;                ///< Longest path that avoids the window.
};

/// Starts after the prefix, then the longest path that skips the window.
void measure_heads(const OrderGraph& graph, const OrderSolution& solution,
                   uint32_t first, uint32_t count,
                   const std::vector<uint32_t>& local, Surroundings& around) {
  std::vector<int64_t> free_at(graph.streams(), 0), end(graph.size(), 0);
  const auto run = [&](uint32_t op) {
    int64_t start = free_at[graph.stream(op)];
    for (const uint32_t before : graph.predecessors(op))
      start = std::max(start, end[before]);
    return start;
  };
  const auto advance = [&](uint32_t op) {
    end[op] = free_at[graph.stream(op)] = run(op) + graph.duration(op);
    around.outside = std::max(around.outside, end[op]);
  };
  for (uint32_t i = 0; i < first; ++i) advance(solution.sequence[i]);
  for (uint32_t i = first; i < first + count; ++i) {
    around.heads[local[solution.sequence[i]]] = run(solution.sequence[i]);
  }
  for (uint32_t i = first + count; i < graph.size(); ++i)
    advance(solution.sequence[i]);
}

void measure_tails(const OrderGraph& graph, const OrderSolution& solution,
                   uint32_t first, uint32_t count,
                   const std::vector<uint32_t>& local, Surroundings& around) {
  std::vector<int64_t> after_stream(graph.streams(), 0),
      from_start(graph.size(), 0);
  const auto tail = [&](uint32_t op) {
    int64_t longest = after_stream[graph.stream(op)];
    for (const uint32_t next : graph.successors(op))
      longest = std::max(longest, from_start[next]);
    return longest;
  };
  for (uint32_t i = graph.size(); i > first + count; --i) {
    const uint32_t op = solution.sequence[i - 1];
    from_start[op] = after_stream[graph.stream(op)] =
        tail(op) + graph.duration(op);
  }
  for (uint32_t i = first; i < first + count; ++i) {
    around.tails[local[solution.sequence[i]]] = tail(solution.sequence[i]);
  }
}

Result<OrderGraph> window_graph(const OrderGraph& graph,
                                const OrderSolution& solution, uint32_t first,
                                uint32_t count,
                                const std::vector<uint32_t>& local) {
  OrderInstance instance;
  instance.streams = graph.streams();
  for (uint32_t i = first; i < first + count; ++i) {
    const uint32_t op = solution.sequence[i];
    instance.stream.push_back(graph.stream(op));
    instance.duration.push_back(graph.duration(op));
    for (const uint32_t next : graph.successors(op)) {
      if (local[next] != kOutside)
        instance.dependencies.emplace_back(local[op], local[next]);
    }
  }
  return OrderGraph::make(std::move(instance));
}

}  // namespace

WindowResult improve_window(const OrderGraph& graph,
                            const OrderSolution& solution, uint32_t first,
                            uint32_t count, uint64_t node_limit) {
  WindowResult result;
  if (count < 2 || first + count > graph.size()) return result;
  std::vector<uint32_t> local(graph.size(), kOutside);
  for (uint32_t i = 0; i < count; ++i) local[solution.sequence[first + i]] = i;
  Surroundings around{std::vector<int64_t>(count), std::vector<int64_t>(count)};
  measure_heads(graph, solution, first, count, local, around);
  const int64_t target = solution.makespan - 1;
  if (around.outside > target) return {.better = {}, .proved = true};
  measure_tails(graph, solution, first, count, local, around);
  const auto window = window_graph(graph, solution, first, count, local);
  if (!window) return result;
  PairRelaxation state(*window, target, around.heads, around.tails);
  if (!state.propagate()) return {.better = {}, .proved = true};
  const WindowSolution solved =
      solve_window(*window, state, target, node_limit);
  result.proved = solved.proved;
  result.nodes = solved.nodes;
  if (!solved.best) return result;
  std::vector<uint32_t> sequence = solution.sequence;
  for (uint32_t i = 0; i < count; ++i) {
    sequence[first + i] = solution.sequence[first + solved.best->sequence[i]];
  }
  OrderSolution better = evaluate_sequence(graph, std::move(sequence));
  if (better.makespan <= target) result.better = std::move(better);
  return result;
}

}  // namespace reprise
