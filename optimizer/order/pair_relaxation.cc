// Constraint propagation on pairs of ops of one stream. Decisions are kept
// transitively closed as bit rows (who is before whom). Until nothing changes:
// each op's head grows to the earliest end of all that is decided to come
// before it, run by release time on each stream, tails likewise; a pair for
// which one direction no longer fits into the makespan is decided the other
// way. A stream whose Jackson bound passes the makespan refutes it.
//
// These are the immediate selections of J. Carlier and E. Pinson, 1989, with
// set heads. Cost of a round: O(ops^2 log ops) time, 2 ops^2 bits.
#include "optimizer/order/pair_relaxation.h"

#include <algorithm>
#include <bit>

namespace reprise {
namespace {

template <typename Visit>
void for_each_bit(const uint64_t* row, size_t words, Visit visit) {
  for (size_t word = 0; word < words; ++word) {
    for (uint64_t bits = row[word]; bits != 0; bits &= bits - 1) {
      visit(static_cast<uint32_t>(word * 64) +
            static_cast<uint32_t>(std::countr_zero(bits)));
    }
  }
}

}  // namespace

PairRelaxation::PairRelaxation(const OrderGraph& graph, int64_t makespan)
    : PairRelaxation(graph, makespan, graph.heads(), graph.tails()) {}

PairRelaxation::PairRelaxation(const OrderGraph& graph, int64_t makespan,
                               std::vector<int64_t> heads,
                               std::vector<int64_t> tails)
    : graph_(&graph),
      makespan_(makespan),
      words_((graph.size() + 63) / 64),
      before_(graph.size() * words_),
      after_(graph.size() * words_),
      heads_(std::move(heads)),
      tails_(std::move(tails)) {
  for (const uint32_t op : graph.topological()) {
    for (const uint32_t next : graph.successors(op)) add(op, next);
  }
}

bool PairRelaxation::add(uint32_t before, uint32_t after) {
  if (is_before(after, before)) return false;
  if (is_before(before, after)) return true;
  std::vector<uint64_t> above(&before_[before * words_],
                              &before_[before * words_] + words_);
  std::vector<uint64_t> below(&after_[after * words_],
                              &after_[after * words_] + words_);
  above[before / 64] |= uint64_t{1} << (before % 64);
  below[after / 64] |= uint64_t{1} << (after % 64);
  for_each_bit(above.data(), words_, [&](uint32_t op) {
    for (size_t w = 0; w < words_; ++w) after_[op * words_ + w] |= below[w];
  });
  for_each_bit(below.data(), words_, [&](uint32_t op) {
    for (size_t w = 0; w < words_; ++w) before_[op * words_ + w] |= above[w];
  });
  return true;
}

void PairRelaxation::sort_by_depth() {
  const uint32_t count = graph_->size();
  std::vector<std::pair<uint32_t, uint32_t>> depth(count);
  for (uint32_t op = 0; op < count; ++op) {
    uint32_t bits = 0;
    for (size_t w = 0; w < words_; ++w) {
      bits += static_cast<uint32_t>(std::popcount(before_[op * words_ + w]));
    }
    depth[op] = {bits, op};
  }
  std::sort(depth.begin(), depth.end());
  depth_order_.resize(count);
  for (uint32_t i = 0; i < count; ++i) depth_order_[i] = depth[i].second;
}

/// Earliest end, on each stream, of all ops of a row run by release time; the
/// largest over streams.
int64_t PairRelaxation::set_bound(const Rows& rows, uint32_t op,
                                  const std::vector<int64_t>& release) {
  int64_t bound = 0;
  for (uint32_t stream = 0; stream < graph_->streams(); ++stream) {
    scratch_.clear();
    for_each_bit(&rows[op * words_], words_, [&](uint32_t other) {
      if (graph_->stream(other) == stream) {
        scratch_.emplace_back(release[other], graph_->duration(other));
      }
    });
    std::sort(scratch_.begin(), scratch_.end());
    int64_t end = 0;
    for (const auto& [from, duration] : scratch_) {
      end = std::max(end, from) + duration;
    }
    bound = std::max(bound, end);
  }
  return bound;
}

bool PairRelaxation::grow_heads() {
  for (const uint32_t op : depth_order_) {
    heads_[op] = std::max(heads_[op], set_bound(before_, op, heads_));
    if (heads_[op] + graph_->duration(op) + tails_[op] > makespan_) {
      return false;
    }
  }
  return true;
}

bool PairRelaxation::grow_tails() {
  for (auto op = depth_order_.rbegin(); op != depth_order_.rend(); ++op) {
    tails_[*op] = std::max(tails_[*op], set_bound(after_, *op, tails_));
    if (heads_[*op] + graph_->duration(*op) + tails_[*op] > makespan_) {
      return false;
    }
  }
  return true;
}

bool PairRelaxation::select_pairs(bool& changed) {
  changed = false;
  for (uint32_t a = 0; a < graph_->size(); ++a) {
    for (uint32_t b = a + 1; b < graph_->size(); ++b) {
      if (graph_->stream(a) != graph_->stream(b) || !is_undecided(a, b)) {
        continue;
      }
      const int64_t work = graph_->duration(a) + graph_->duration(b);
      const bool ab = heads_[a] + work + tails_[b] <= makespan_;
      const bool ba = heads_[b] + work + tails_[a] <= makespan_;
      if (ab && ba) continue;
      if (!ab && !ba) return false;
      changed = true;
      if (!(ab ? add(a, b) : add(b, a))) return false;
    }
  }
  return true;
}

bool PairRelaxation::propagate() {
  bool changed = true;
  while (changed) {
    sort_by_depth();
    if (!grow_heads() || !grow_tails() || !select_pairs(changed)) return false;
  }
  return jackson_bound(*graph_, heads_, tails_) <= makespan_;
}

std::vector<std::pair<uint32_t, uint32_t>> PairRelaxation::undecided_pairs()
    const {
  std::vector<std::pair<uint32_t, uint32_t>> pairs;
  for (uint32_t a = 0; a < graph_->size(); ++a) {
    for (uint32_t b = a + 1; b < graph_->size(); ++b) {
      if (graph_->stream(a) == graph_->stream(b) && is_undecided(a, b)) {
        pairs.emplace_back(a, b);
      }
    }
  }
  return pairs;
}

}  // namespace reprise
