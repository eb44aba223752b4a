// Dynamic program over borders. A state after the first `end` gradients is a
// pair: when communication is free, when compute is. Both only delay what comes
// later, so of two states the one that is later in both can never win; each
// border keeps its Pareto front. Every front is extended by every bucket that
// may follow.
#include "optimizer/buckets/bucket_program.h"

#include <algorithm>
#include <tuple>

#include "data/result.h"

namespace reprise {
namespace {

struct State {
  int64_t communication_free = 0, compute_free = 0;
  size_t buckets = 0;
  /// Where it came from: border and place in its front.
  size_t border = 0, parent = 0;
};

/// Keeps the states that no other beats in both times; of equal ones the one of
/// fewest buckets.
void keep_undominated(std::vector<State>& states) {
  std::sort(states.begin(), states.end(), [](const State& a, const State& b) {
    return std::tuple(a.communication_free, a.compute_free, a.buckets, a.border,
                      a.parent) < std::tuple(b.communication_free,
                                             b.compute_free, b.buckets,
                                             b.border, b.parent);
  });
  std::vector<State> kept;
  for (const State& state : states) {
    if (kept.empty() || state.compute_free < kept.back().compute_free) {
      kept.push_back(state);
    }
  }
  states = std::move(kept);
}

State extend(const BucketProgram& program, const State& from, size_t begin,
             size_t end, int64_t bytes, int64_t update_ns) {
  const ReadyGradient& last = program.gradients[end - 1];
  State next;
  next.communication_free = std::max(from.communication_free, last.ready_ns) +
                            program.price_ns(bytes, last.key);
  next.compute_free =
      std::max(from.compute_free, next.communication_free) + update_ns;
  next.buckets = from.buckets + 1;
  next.border = begin;
  return next;
}

}  // namespace

BucketSolution solve_buckets(const BucketProgram& program) {
  const size_t count = program.gradients.size();
  std::vector<std::vector<State>> fronts(count + 1);
  fronts[0] = {
      {.communication_free = 0, .compute_free = program.compute_free_ns}};
  for (size_t end = 1; end <= count; ++end) {
    int64_t bytes = 0, update_ns = 0;
    for (size_t begin = end; begin-- > 0;) {
      if (program.gradients[begin].key != program.gradients[end - 1].key) break;
      bytes += program.gradients[begin].bytes;
      update_ns += program.gradients[begin].update_ns;
      for (size_t i = 0; i < fronts[begin].size(); ++i) {
        State next =
            extend(program, fronts[begin][i], begin, end, bytes, update_ns);
        next.parent = i;
        fronts[end].push_back(next);
      }
    }
    keep_undominated(fronts[end]);
  }
  const auto best =
      std::min_element(fronts[count].begin(), fronts[count].end(),
                       [](const State& a, const State& b) {
                         return std::pair(a.compute_free, a.buckets) <
                                std::pair(b.compute_free, b.buckets);
                       });
  BucketSolution solution;
  solution.finish_ns = best->compute_free;
  const State* state = &*best;
  for (size_t border = count; border > 0;) {
    solution.borders.push_back(border);
    border = state->border;
    state = &fronts[border][state->parent];
  }
  std::reverse(solution.borders.begin(), solution.borders.end());
  return solution;
}

}  // namespace reprise
