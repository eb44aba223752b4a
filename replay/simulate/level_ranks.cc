// Levelling: a rank that needs more in a step than the median rank does the
// extra no more. Extra work is seldom spread evenly (a sleep, a loader, one
// kernel with more to do), so it is taken where it is, and not as a share of
// everything.
#include <algorithm>
#include <limits>
#include <unordered_map>
#include <vector>

#include "data/integers.h"
#include "data/median.h"
#include "replay/simulate/graph_edits.h"

namespace reprise {
namespace {

/// What each rank does itself in one step: work of a name on the host or the
/// device, or the gaps before such work. Nobody's time in collectives counts.
class StepWork {
 public:
  void add(uint64_t work, uint16_t rank, int64_t time_ns) {
    if (time_ns <= 0) return;
    parts_[work << 16 | rank].own_ns += static_cast<double>(time_ns);
    totals_[work >> 1 & 1][rank] += static_cast<double>(time_ns);
  }

  /// A rank's excess over the median rank in total is taken where it does more
  /// than the median rank does: what it does less of elsewhere stays.
  void level(size_t ranks) {
    std::unordered_map<uint64_t, std::vector<double>> by_work;
    for (const auto& [key, part] : parts_) {
      by_work[key >> 16].push_back(part.own_ns);
    }
    std::unordered_map<uint64_t, double> median;
    for (auto& [work, own] : by_work) {
      median[work] = median_of(std::move(own), ranks);
    }
    Totals more[2];
    for (auto& [key, part] : parts_) {
      part.excess_ns = std::max(0.0, part.own_ns - median[key >> 16]);
      more[key >> 17 & 1][key & 0xffff] += part.excess_ns;
    }
    double typical[2];
    for (const int host : {0, 1}) {
      std::vector<double> all;
      for (const auto& [rank, total] : totals_[host]) all.push_back(total);
      typical[host] = median_of(std::move(all), ranks);
    }
    for (auto& [key, part] : parts_) {
      const uint32_t host = key >> 17 & 1, rank = key & 0xffff;
      const double excess = std::max(0.0, totals_[host][rank] - typical[host]);
      if (part.excess_ns > 0) {
        part.excess_ns *= std::min(1.0, excess / more[host][rank]);
      }
    }
  }

  /// Of this work, what the rank does not need to do more of than the median
  /// rank.
  double factor(uint64_t work, uint16_t rank) const {
    const auto found = parts_.find(work << 16 | rank);
    return found == parts_.end() || found->second.own_ns <= 0
               ? 1
               : 1 - found->second.excess_ns / found->second.own_ns;
  }

 private:
  struct Part {
    double own_ns = 0, excess_ns = 0;
  };
  /// Of a rank on its host or device.
  using Totals = std::unordered_map<uint32_t, double>;

  /// The lower median over all ranks, those without any included: of two
  /// ranks, one is the straggler.
  static double median_of(std::vector<double> known, size_t ranks) {
    known.resize(std::max(known.size(), ranks), 0);
    return lower_median(known);
  }

  std::unordered_map<uint64_t, Part> parts_;
  Totals totals_[2];  ///< Device, host.
};

/// The work of each step: ranks that are late by turns do as much as each other
/// over all.
class WorkByStep {
 public:
  WorkByStep(const NodeFacts& facts, const TimedGraph& graph)
      : facts_(facts),
        graph_(graph),
        own_gaps_(reprise::own_gaps(facts, graph)) {
    for (uint32_t node = 0; node < graph.size(); ++node) {
      if (graph.under_way(node)) continue;
      if (graph.collective[node] < 0) add(node, false, graph.duration[node]);
      if (own_gaps_[node]) add(node, true, graph.gap[node]);
    }
    for (const TimedGraph::Span& rank : graph.ranks)
      ranks_ += rank.is_recorded();
    std::unordered_map<int32_t, size_t> ranks;
    for (const TimedGraph::Span& step : graph.steps) ++ranks[step.step];
    for (auto& [step, work] : steps_) {
      work.level(step == kBetween ? ranks_ : ranks[step]);
    }
  }

  size_t ranks() const { return ranks_; }
  bool owns_gap(uint32_t node) const { return own_gaps_[node]; }
  double factor(uint32_t node, bool gap) const {
    const auto found = steps_.find(step_of(node));
    return found == steps_.end()
               ? 1
               : found->second.factor(work_of(node, gap), rank_of(node));
  }

 private:
  static constexpr int32_t kBetween = std::numeric_limits<int32_t>::min();

  int32_t step_of(uint32_t node) const {
    const int32_t place = node < graph_.step.size() ? graph_.step[node] : -1;
    return place < 0 ? kBetween : graph_.steps[static_cast<size_t>(place)].step;
  }
  uint16_t rank_of(uint32_t node) const {
    return static_cast<uint16_t>(graph_.rank[node]);
  }
  uint64_t work_of(uint32_t node, bool gap) const {
    const bool of_host = gap || facts_.on_host(graph_.origin[node]);
    return uint64_t{facts_.name_number(graph_.origin[node])} << 2 |
           (of_host ? 2 : 0) | (gap ? 1 : 0);
  }
  void add(uint32_t node, bool gap, int64_t time_ns) {
    steps_[step_of(node)].add(work_of(node, gap), rank_of(node), time_ns);
  }

  const NodeFacts& facts_;
  const TimedGraph& graph_;
  NodeSet own_gaps_;
  size_t ranks_ = 0;  ///< That recorded something.
  std::unordered_map<int32_t, StepWork> steps_;
};

}  // namespace

Status level_ranks(const NodeFacts& facts, TimedGraph& graph) {
  const WorkByStep work(facts, graph);
  if (work.ranks() < 2) {
    return fail(ErrorKind::kInvalid,
                "--what-if straggler=none: the trace has one rank");
  }
  for (uint32_t node = 0; node < graph.size(); ++node) {
    const double own =
        graph.collective[node] < 0 ? work.factor(node, false) : 1;
    if (own < 1) graph.duration[node] = scaled(graph.duration[node], own);
    if (!work.owns_gap(node)) continue;
    const double gap = work.factor(node, true);
    if (gap < 1) scale_gap(node, gap, graph);
  }
  std::vector<double> starts;
  for (const TimedGraph::Span& rank : graph.ranks) {
    if (rank.is_recorded())
      starts.push_back(static_cast<double>(rank.begin_ns()));
  }
  const int64_t start_ns = static_cast<int64_t>(lower_median(starts));
  // The step before, too, ends as much earlier as its last rank begins this.
  if (graph.before_ns && !starts.empty()) {
    *graph.before_ns += start_ns - static_cast<int64_t>(*std::max_element(
                                       starts.begin(), starts.end()));
  }
  for (TimedGraph::Span& rank : graph.ranks) {
    if (!rank.is_recorded()) continue;
    const int64_t shift_ns = start_ns - rank.begin_ns();
    rank.start_ns += shift_ns;
    rank.end_ns += shift_ns;
    if (rank.busy_until_ns != TimedGraph::Span::kNever)
      rank.busy_until_ns = saturating_add(rank.busy_until_ns, shift_ns);
  }
  return {};
}

}  // namespace reprise
