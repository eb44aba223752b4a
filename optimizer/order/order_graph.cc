// Checks an instance, stores its edges in both directions (CSR) and measures,
// in one pass each over a topological order, heads and tails: the longest paths
// before and after every op. Cost: O(ops log ops + dependencies).
#include "optimizer/order/order_graph.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>

namespace reprise {
namespace {

Status check_instance(const OrderInstance& instance) {
  const size_t count = instance.stream.size();
  if (instance.duration.size() != count ||
      count >= std::numeric_limits<uint32_t>::max()) {
    return fail(ErrorKind::kInvalid, "order: {} streams for {} durations",
                count, instance.duration.size());
  }
  int64_t sum = 0;
  for (size_t op = 0; op < count; ++op) {
    if (instance.stream[op] >= instance.streams) {
      return fail(ErrorKind::kInvalid, "order: op {} on stream {} of {}", op,
                  instance.stream[op], instance.streams);
    }
    if (instance.duration[op] < 0 ||
        __builtin_add_overflow(sum, instance.duration[op], &sum) ||
        sum > std::numeric_limits<int64_t>::max() / 4) {
      return fail(ErrorKind::kInvalid,
                  "order: op {} has an impossible duration {}", op,
                  instance.duration[op]);
    }
  }
  for (const auto& [before, after] : instance.dependencies) {
    if (before >= count || after >= count) {
      return fail(ErrorKind::kInvalid,
                  "order: dependency {} -> {} among {} ops", before, after,
                  count);
    }
  }
  return {};
}

}  // namespace

Result<OrderGraph> OrderGraph::make(OrderInstance instance) {
  if (Status ok = check_instance(instance); !ok) return pass(ok.error());
  auto& edges = instance.dependencies;
  std::sort(edges.begin(), edges.end());
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  const auto count = static_cast<uint32_t>(instance.stream.size());
  OrderGraph graph;
  graph.forward_ = Csr(boost::edges_are_unsorted_multi_pass, edges.begin(),
                       edges.end(), count);
  std::vector<std::pair<uint32_t, uint32_t>> reversed;
  reversed.reserve(edges.size());
  for (const auto& [before, after] : edges)
    reversed.emplace_back(after, before);
  graph.backward_ = Csr(boost::edges_are_unsorted_multi_pass, reversed.begin(),
                        reversed.end(), count);
  graph.instance_ = std::move(instance);
  if (Status ok = graph.sort(); !ok) return pass(ok.error());
  graph.measure();
  return graph;
}

OrderGraph OrderGraph::mirrored() const {
  OrderInstance reversed = instance_;
  for (auto& [before, after] : reversed.dependencies) std::swap(before, after);
  Result<OrderGraph> mirror = make(std::move(reversed));
  REPRISE_CHECK(mirror.has_value());
  return *std::move(mirror);
}

Status OrderGraph::sort() {
  std::vector<uint32_t> waiting(size());
  std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>> ready;
  for (uint32_t op = 0; op < size(); ++op) {
    waiting[op] = static_cast<uint32_t>(predecessors(op).size());
    if (waiting[op] == 0) ready.push(op);
  }
  topological_.reserve(size());
  while (!ready.empty()) {
    const uint32_t op = ready.top();
    ready.pop();
    topological_.push_back(op);
    for (const uint32_t next : successors(op)) {
      if (--waiting[next] == 0) ready.push(next);
    }
  }
  if (topological_.size() == size()) return {};
  const auto stuck = std::find_if(waiting.begin(), waiting.end(),
                                  [](uint32_t w) { return w > 0; });
  return fail(ErrorKind::kInvalid, "order: op {} is on or behind a cycle",
              stuck - waiting.begin());
}

void OrderGraph::measure() {
  heads_.assign(size(), 0);
  tails_.assign(size(), 0);
  for (const uint32_t op : topological_) {
    for (const uint32_t next : successors(op)) {
      heads_[next] = std::max(heads_[next], heads_[op] + duration(op));
    }
  }
  for (auto op = topological_.rbegin(); op != topological_.rend(); ++op) {
    for (const uint32_t next : successors(*op)) {
      tails_[*op] = std::max(tails_[*op], tails_[next] + duration(next));
    }
  }
}

OrderSolution evaluate_sequence(const OrderGraph& graph,
                                std::vector<uint32_t> sequence) {
  OrderSolution solution;
  solution.start.assign(graph.size(), 0);
  std::vector<int64_t> free_at(graph.streams(), 0);
  for (const uint32_t op : sequence) {
    int64_t start = free_at[graph.stream(op)];
    for (const uint32_t before : graph.predecessors(op)) {
      start = std::max(start, solution.start[before] + graph.duration(before));
    }
    solution.start[op] = start;
    const int64_t end = start + graph.duration(op);
    free_at[graph.stream(op)] = end;
    solution.makespan = std::max(solution.makespan, end);
  }
  solution.sequence = std::move(sequence);
  return solution;
}

}  // namespace reprise
