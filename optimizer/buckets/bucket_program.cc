// Dynamic program over borders. A state after the first `end` gradients is a
// pair: when communication is free, when compute is. Both only delay what comes
// later, so of two states the one that is later in both can never win; each
// border keeps its Pareto front, in order of the first and so in falling order
// of the second. Every front is extended by every bucket that may follow, but
// where the result is seen to lose beforehand.
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

/// A bucket that may follow a border.
struct NextBucket {
  size_t begin = 0;
  int64_t ready_ns = 0, price_ns = 0, update_ns = 0;

  State after(int64_t communication_free, int64_t compute_free) const {
    State next;
    next.communication_free = std::max(communication_free, ready_ns) + price_ns;
    next.compute_free =
        std::max(compute_free, next.communication_free) + update_ns;
    next.border = begin;
    return next;
  }
};

/// The states after one border that no other beats in both times; of equal ones
/// the one of fewest buckets.
class Front {
 public:
  /// The same bucket after each state of the border before it. Where even the
  /// earliest of both times there would be beaten by what is here, none is
  /// made: most long buckets go that way, without a look at the states.
  void extend(const NextBucket& bucket, const std::vector<State>& before) {
    if (is_beaten(bucket.after(before.front().communication_free,
                               before.back().compute_free)))
      return;
    for (size_t i = 0; i < before.size(); ++i) {
      State next =
          bucket.after(before[i].communication_free, before[i].compute_free);
      next.buckets = before[i].buckets + 1;
      next.parent = i;
      add(next);
    }
  }

  std::vector<State> take() { return std::move(states_); }

 private:
  using Place = std::vector<State>::iterator;

  /// Among states of one communication_free.
  static auto rank(const State& state) {
    return std::tuple(state.compute_free, state.buckets, state.border,
                      state.parent);
  }

  Place not_before(const State& state) {
    return std::ranges::lower_bound(states_, state.communication_free, {},
                                    &State::communication_free);
  }

  /// By a state that is earlier in one time and no later in the other.
  bool is_beaten(const State& state) {
    const Place next = not_before(state);
    return next != states_.begin() &&
           std::prev(next)->compute_free <= state.compute_free;
  }

  void add(const State& state) {
    if (is_beaten(state)) return;
    const Place next = not_before(state);
    if (next != states_.end() &&
        next->communication_free == state.communication_free &&
        rank(*next) <= rank(state))
      return;
    const Place beaten_end = std::find_if(next, states_.end(), [&](auto& s) {
      return s.compute_free < state.compute_free;
    });
    states_.insert(states_.erase(next, beaten_end), state);
  }

  std::vector<State> states_;  ///< Ascending in one time, falling in the other.
};

}  // namespace

BucketSolution solve_buckets(const BucketProgram& program) {
  const size_t count = program.gradients.size();
  std::vector<std::vector<State>> fronts(count + 1);
  fronts[0] = {
      {.communication_free = 0, .compute_free = program.compute_free_ns}};
  for (size_t end = 1; end <= count; ++end) {
    const ReadyGradient& last = program.gradients[end - 1];
    Front front;
    int64_t bytes = 0;
    NextBucket bucket{.ready_ns = last.ready_ns};
    for (size_t begin = end; begin-- > 0;) {
      if (program.gradients[begin].key != last.key) break;
      bytes += program.gradients[begin].bytes;
      bucket.begin = begin;
      bucket.price_ns = program.price_ns(bytes, last.key);
      bucket.update_ns += program.gradients[begin].update_ns;
      front.extend(bucket, fronts[begin]);
    }
    fronts[end] = front.take();
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
