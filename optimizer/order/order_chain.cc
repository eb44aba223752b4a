// One chain of the search, with three ways to improve its incumbent. On
// priorities: one op's is set just above or below another's and the list
// scheduler says what that gives. On the sequence: one op moves past up to a
// dozen others, equal makespans accepted, so that it drifts along plateaus and
// reaches orders with deliberate idle time, which no list schedule has. By
// windows: sixteen consecutive ops are put into their exact optimum.
#include "optimizer/order/order_chain.h"

#include <algorithm>
#include <limits>

#include "optimizer/order/order_window.h"

namespace reprise {
namespace {

constexpr uint64_t kNodesOfWindow = 2000;
/// Priorities are spread so that one fits between any two neighbours.
constexpr int64_t kPrioritySpread = 1 << 10;

/// Moves the op at `at` later or earlier, past at most `reach` others and none
/// that depends on it or that it depends on.
void shift(const OrderGraph& graph, uint32_t at, uint32_t reach, bool later,
           std::vector<uint32_t>& sequence) {
  const uint32_t op = sequence[at];
  const uint32_t end = later ? graph.size() - 1 : 0;
  for (; reach > 0 && at != end; --reach) {
    const uint32_t next = later ? at + 1 : at - 1, other = sequence[next];
    const auto after = graph.successors(later ? op : other);
    if (std::find(after.begin(), after.end(), later ? other : op) !=
        after.end())
      return;
    std::swap(sequence[at], sequence[next]);
    at = next;
  }
}

}  // namespace

OrderChain::OrderChain(const OrderGraph& graph, OrderSolution start,
                       uint64_t seed)
    : graph_(&graph),
      best_(std::move(start)),
      scheduler_(graph),
      random_(seed) {
  adopt(best_);
}

void OrderChain::adopt(const OrderSolution& better) {
  best_ = better;
  priority_ = priorities_of(best_.sequence);
  for (int64_t& priority : priority_) priority *= kPrioritySpread;
  priority_makespan_ = scheduler_.run(priority_, kNever);
}

void OrderChain::kick() {
  const uint32_t ops = graph_->size();
  for (uint32_t i = 0; i < 1 + ops / 8; ++i) {
    priority_[random_below(ops)] = priority_[random_below(ops)] + 1;
  }
  priority_makespan_ = scheduler_.run(priority_, kNever);
  best_ = scheduler_.solution();
}

uint32_t OrderChain::random_below(uint64_t bound) {
  return static_cast<uint32_t>(random_() % bound);
}

void OrderChain::search_priorities(uint64_t evaluations) {
  const uint32_t ops = graph_->size();
  if (ops < 2) return;
  for (uint64_t i = 0; i < evaluations; ++i) {
    const uint32_t op = random_below(ops), other = random_below(ops);
    const int64_t old = priority_[op];
    priority_[op] = priority_[other] + (random_() % 2 == 0 ? 1 : -1);
    const int64_t makespan = scheduler_.run(priority_, priority_makespan_);
    if (makespan > priority_makespan_) {
      priority_[op] = old;
      continue;
    }
    priority_makespan_ = makespan;
    if (makespan < best_.makespan) best_ = scheduler_.solution();
  }
  counts_.evaluations += evaluations;
}

void OrderChain::drift(uint64_t evaluations) {
  const uint32_t ops = graph_->size();
  if (ops < 2) return;
  OrderSolution current = best_;
  for (uint64_t i = 0; i < evaluations; ++i) {
    const uint32_t from = random_below(ops);
    const uint32_t reach = 1 + random_below(std::min<uint32_t>(ops - 1, 12));
    const bool later = random_() % 2 == 0;
    std::vector<uint32_t> sequence = current.sequence;
    shift(*graph_, from, reach, later, sequence);
    OrderSolution moved = evaluate_sequence(*graph_, std::move(sequence));
    if (moved.makespan > current.makespan) continue;
    current = std::move(moved);
  }
  counts_.evaluations += evaluations;
  std::stable_sort(current.sequence.begin(), current.sequence.end(),
                   [&](uint32_t a, uint32_t b) {
                     return current.start[a] < current.start[b];
                   });
  best_ = std::move(current);
}

void OrderChain::improve_windows(uint32_t window_ops, uint64_t evaluations) {
  const uint32_t ops = graph_->size();
  const uint32_t count = std::min(window_ops, ops);
  const uint32_t step = std::max<uint32_t>(1, count / 4);
  const uint64_t end = counts_.evaluations + evaluations;
  bool improved = true;
  while (improved && counts_.evaluations < end) {
    improved = false;
    const uint32_t offset = random_below(step);
    for (uint32_t first = offset; counts_.evaluations < end; first += step) {
      const uint32_t at = std::min(first, ops - count);
      WindowResult window =
          improve_window(*graph_, best_, at, count, kNodesOfWindow);
      counts_.evaluations += 1 + window.nodes;
      if (window.nodes > 0) ++counts_.windows_solved;
      if (window.better) {
        best_ = *std::move(window.better);
        std::stable_sort(best_.sequence.begin(), best_.sequence.end(),
                         [&](uint32_t a, uint32_t b) {
                           return best_.start[a] < best_.start[b];
                         });
        ++counts_.windows_improved;
        improved = true;
      }
      if (first >= ops - count) break;
    }
  }
}

}  // namespace reprise
