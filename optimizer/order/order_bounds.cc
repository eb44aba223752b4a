// Lower bounds, each on top of the one before.
//
// Jackson's: one stream by itself, ops released at their heads and owing their
// tails, may be interrupted; running the longest tail first is optimal then.
// Sets: heads and tails that count, stream by stream, all that must run before
// or after. Destructive: guess a makespan, derive what every order that short
// must obey (pair_relaxation.h) and, if that contradicts itself, the guess is
// refuted; bisection finds the least makespan that is not. Shaving tries both
// directions of a pair in such a relaxation and fixes the one that survives.
//
// J. Carlier, EJOR 11, 1982; J. Carlier and E. Pinson, Management Science 35,
// 1989; P. Martin and D. Shmoys, IPCO 1996.
#include "optimizer/order/order_bounds.h"

#include <algorithm>
#include <bit>
#include <queue>
#include <vector>

#include "optimizer/order/pair_relaxation.h"

namespace reprise {
namespace {

constexpr uint32_t kMaxOpsOfPairs = 300;
constexpr uint32_t kMaxOpsOfShaving = 60;
constexpr uint32_t kMaxOpsOfSets = 4000;

/// Heads that count, for each op and stream, all predecessors run by release.
std::vector<int64_t> set_heads(const OrderGraph& graph) {
  const size_t words = (graph.size() + 63) / 64;
  std::vector<uint64_t> before(graph.size() * words, 0);
  std::vector<int64_t> heads(graph.size(), 0);
  std::vector<std::vector<std::pair<int64_t, int64_t>>> sets(graph.streams());
  for (const uint32_t op : graph.topological()) {
    uint64_t* row = &before[op * words];
    for (const uint32_t pred : graph.predecessors(op)) {
      for (size_t w = 0; w < words; ++w) row[w] |= before[pred * words + w];
      row[pred / 64] |= uint64_t{1} << (pred % 64);
      heads[op] = std::max(heads[op], heads[pred] + graph.duration(pred));
    }
    for (auto& set : sets) set.clear();
    for (size_t w = 0; w < words; ++w) {
      for (uint64_t bits = row[w]; bits != 0; bits &= bits - 1) {
        const auto pred = static_cast<uint32_t>(w * 64) +
                          static_cast<uint32_t>(std::countr_zero(bits));
        sets[graph.stream(pred)].emplace_back(heads[pred],
                                              graph.duration(pred));
      }
    }
    for (auto& set : sets) {
      std::sort(set.begin(), set.end());
      int64_t end = 0;
      for (const auto& [head, duration] : set) {
        end = std::max(end, head) + duration;
      }
      heads[op] = std::max(heads[op], end);
    }
  }
  return heads;
}

/// Fixes, until nothing changes, every undecided pair of which one direction is
/// refuted. False when both are.
bool shave(PairRelaxation& state, uint64_t& work_left) {
  bool changed = true;
  while (changed) {
    changed = false;
    for (const auto& [first, second] : state.undecided_pairs()) {
      for (const auto& [before, after] :
           {std::pair(first, second), std::pair(second, first)}) {
        if (work_left == 0) return true;
        if (!state.is_undecided(first, second)) break;
        --work_left;
        PairRelaxation trial = state;
        if (trial.add(before, after) && trial.propagate()) continue;
        changed = true;
        if (!state.add(after, before) || !state.propagate()) return false;
      }
    }
  }
  return true;
}

bool is_refuted(const OrderGraph& graph, int64_t makespan, bool shaving,
                uint64_t& work_left) {
  PairRelaxation state(graph, makespan);
  if (!state.propagate()) return true;
  return shaving && !shave(state, work_left);
}

/// Smallest makespan in [low, high] that is not refuted; `high` is known not to
/// be.
int64_t first_unrefuted(const OrderGraph& graph, int64_t low, int64_t high,
                        bool shaving, uint64_t& work_left) {
  while (low < high && work_left > 0) {
    const int64_t middle = low + (high - low) / 2;
    if (is_refuted(graph, middle, shaving, work_left)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

}  // namespace

int64_t jackson_preemptive_bound(std::span<const MachineJob> jobs) {
  std::vector<MachineJob> sorted(jobs.begin(), jobs.end());
  std::sort(
      sorted.begin(), sorted.end(),
      [](const MachineJob& a, const MachineJob& b) { return a.head < b.head; });
  std::priority_queue<std::pair<int64_t, int64_t>>
      released;  // (tail, remaining)
  int64_t now = 0, bound = 0;
  size_t next = 0;
  while (next < sorted.size() || !released.empty()) {
    if (released.empty()) now = std::max(now, sorted[next].head);
    while (next < sorted.size() && sorted[next].head <= now) {
      released.emplace(sorted[next].tail, sorted[next].duration);
      ++next;
    }
    auto [tail, remaining] = released.top();
    released.pop();
    const int64_t until =
        next < sorted.size() ? sorted[next].head : now + remaining;
    const int64_t run = std::min(remaining, until - now);
    now += run;
    if (run < remaining) {
      released.emplace(tail, remaining - run);
    } else {
      bound = std::max(bound, now + tail);
    }
  }
  return bound;
}

int64_t jackson_bound(const OrderGraph& graph,
                      const std::vector<int64_t>& heads,
                      const std::vector<int64_t>& tails) {
  int64_t bound = 0;
  std::vector<MachineJob> jobs;
  for (uint32_t stream = 0; stream < graph.streams(); ++stream) {
    jobs.clear();
    for (uint32_t op = 0; op < graph.size(); ++op) {
      if (graph.stream(op) != stream) continue;
      jobs.push_back({heads[op], graph.duration(op), tails[op]});
      bound = std::max(bound, heads[op] + graph.duration(op) + tails[op]);
    }
    bound = std::max(bound, jackson_preemptive_bound(jobs));
  }
  return bound;
}

int64_t jackson_bound(const OrderGraph& graph) {
  return jackson_bound(graph, graph.heads(), graph.tails());
}

int64_t set_bound(const OrderGraph& graph) {
  return jackson_bound(graph, set_heads(graph), set_heads(graph.mirrored()));
}

int64_t destructive_bound(const OrderGraph& graph, int64_t upper_bound,
                          const DestructiveOptions& options) {
  uint64_t work_left = options.work_limit;
  int64_t bound = jackson_bound(graph);
  REPRISE_CHECK(bound <= upper_bound);  // Else it bounds nothing.
  bound = first_unrefuted(graph, bound, upper_bound, false, work_left);
  if (options.shaving) {
    bound = first_unrefuted(graph, bound, upper_bound, true, work_left);
  }
  return bound;
}

int64_t order_lower_bound(const OrderGraph& graph, int64_t upper_bound) {
  if (graph.size() > kMaxOpsOfPairs) {
    const int64_t bound =
        graph.size() > kMaxOpsOfSets ? jackson_bound(graph) : set_bound(graph);
    REPRISE_CHECK(bound <= upper_bound);
    return bound;
  }
  return destructive_bound(graph, upper_bound,
                           {.shaving = graph.size() <= kMaxOpsOfShaving});
}

}  // namespace reprise
