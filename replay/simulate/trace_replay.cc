#include "replay/simulate/trace_replay.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "data/integers.h"
#include "data/trace/step_times.h"
#include "replay/simulate/graph_edits.h"

namespace reprise {
namespace {

/// When nodes, asked for in ascending order, end.
class Ends {
 public:
  Ends(const TimedGraph& graph, const std::vector<int64_t>& end_ns)
      : graph_(graph),
        end_ns_(end_ns),
        beyond_(graph.beyond_ns),
        of_one_step_(graph.of_one_step()),
        marked_(graph.ranks.size(), 0) {
    for (const TimedGraph::Span& step : graph.steps) marked_[step.rank] = 1;
  }

  /// As far as their step is concerned.
  int64_t in_step(uint32_t node) {
    while (!beyond_.empty() && beyond_.front().first < node)
      beyond_ = beyond_.subspan(1);
    const bool beyond = !beyond_.empty() && beyond_.front().first == node;
    return end_ns_[node] - (beyond ? beyond_.front().second : 0);
  }
  /// In a window of one step what is done beside it and beyond its end does not
  /// count.
  std::optional<int64_t> in_window(uint32_t node) {
    if (!of_one_step_ || marked_[graph_.rank[node]] == 0) return end_ns_[node];
    if (graph_.step[node] == -1) return std::nullopt;
    return in_step(node);
  }

 private:
  const TimedGraph& graph_;
  const std::vector<int64_t>& end_ns_;
  std::span<const std::pair<uint32_t, int64_t>> beyond_;  // From a node on.
  bool of_one_step_;
  std::vector<uint8_t> marked_;  // [rank place] Has a step.
};

void measure_ranks(const TimedGraph& recorded, const TimedGraph& graph,
                   TraceReplay& replay) {
  std::vector<int64_t> end_ns;
  for (const TimedGraph::Span& rank : graph.ranks) {
    end_ns.push_back(rank.start_ns);
  }
  Ends ends(graph, replay.end_ns);
  for (uint32_t node = 0; node < graph.size(); ++node) {
    int64_t& end = end_ns[graph.rank[node]];
    end = std::max(end, ends.in_window(node).value_or(end));
  }
  for (size_t rank = 0; rank < graph.ranks.size(); ++rank) {
    const TimedGraph::Span& span = recorded.ranks[rank];
    const bool there = span.is_recorded();
    replay.rank_predicted_ns.push_back(
        there ? end_ns[rank] - graph.ranks[rank].begin_ns() : 0);
    replay.rank_measured_ns.push_back(there ? span.end_ns - span.begin_ns()
                                            : 0);
  }
}

// The steps of the ranks as they were, and what a replay makes of them.
class StepMeasure {
 public:
  StepMeasure(const TimedGraph& recorded, const TimedGraph& graph,
              const GraphTimes& times, const TickColumn& gap)
      : recorded_(recorded),
        graph_(graph),
        gap_(gap),
        of_step_(graph.steps.size()) {
    Ends ends(graph, times.end_ns);
    for (uint32_t node = 0; node < graph.size(); ++node) {
      if (graph.step[node] < 0) continue;
      Nodes& nodes = of_step_[static_cast<size_t>(graph.step[node])];
      nodes.end_ns = std::max(nodes.end_ns, ends.in_step(node));
      const int64_t from_ns = times.start_ns[node] - gap[node];
      if (from_ns >= nodes.from_ns) continue;
      nodes.from_ns = from_ns;
      nodes.first = node;
    }
    count_from_last_end();
  }

  std::vector<ReplayedStep> run() const {
    std::vector<ReplayedStep> steps;
    for (size_t step = 0; step < of_step_.size(); ++step) {
      if (of_step_[step].end_ns == -kEndOfTime) continue;
      const TimedGraph::Span& mark = graph_.steps[step];
      const Start start = start_of(step);
      steps.push_back(
          {.rank = mark.rank,
           .step = mark.step,
           .predicted_ns = of_step_[step].end_ns - start.predicted_ns,
           .measured_ns = mark.end_ns - start.measured_ns,
           .start_ns = start.predicted_ns,
           .measured_start_ns = start.measured_ns,
           .is_warmup = mark.is_warmup});
    }
    return steps;
  }

 private:
  /// Of a step.
  struct Nodes {
    int64_t end_ns = -kEndOfTime, from_ns = kEndOfTime;
    uint32_t first = 0;  ///< Whose gap begins first, at from_ns.
  };
  struct Start {
    int64_t predicted_ns = 0, measured_ns = 0;
  };

  /// What outlasts the steps after its own (a checkpoint that is copied beside
  /// them) is counted once.
  void count_from_last_end() {
    int64_t predicted_ns = -kEndOfTime, measured_ns = -kEndOfTime;
    for (size_t step = 0; step < of_step_.size(); ++step) {
      if (step == 0 || graph_.steps[step - 1].rank != graph_.steps[step].rank)
        predicted_ns = measured_ns = -kEndOfTime;
      predicted_ns = std::max(predicted_ns, of_step_[step].end_ns);
      measured_ns = std::max(measured_ns, graph_.steps[step].end_ns);
      last_end_.push_back({predicted_ns, measured_ns});
    }
  }

  Start start_of(size_t step) const {
    const TimedGraph::Span& mark = graph_.steps[step];
    const bool is_first = step == 0 || graph_.steps[step - 1].rank != mark.rank;
    if (is_first) return start_of_window(mark);
    if (of_step_[step - 1].end_ns == -kEndOfTime)
      return {of_step_[step].from_ns, mark.start_ns};
    // What the rank does between its marks is no step's: a part of the gap
    // before the first node, however long a what-if makes that.
    const auto [last_end_ns, before_ns] = last_end_[step - 1];
    const int64_t between_ns = std::max<int64_t>(0, mark.start_ns - before_ns);
    const uint32_t first = of_step_[step].first;
    const int64_t gap_ns = recorded_.gap[first];
    const double part = gap_ns > 0 ? static_cast<double>(gap_[first]) /
                                         static_cast<double>(gap_ns)
                                   : 1;
    return {.predicted_ns = std::min(of_step_[step].end_ns,
                                     last_end_ns + scaled(between_ns, part)),
            .measured_ns = std::min(mark.end_ns, before_ns + between_ns)};
  }

  /// Of the first step in it: as late or early as the rank.
  Start start_of_window(const TimedGraph::Span& mark) const {
    const TimedGraph::Span& rank = recorded_.ranks[mark.rank];
    const int64_t measured_ns =
        rank.busy_until_ns > mark.start_ns ? rank.begin_ns() : mark.start_ns;
    return {.predicted_ns = measured_ns + graph_.ranks[mark.rank].begin_ns() -
                            rank.begin_ns(),
            .measured_ns = measured_ns};
  }

  const TimedGraph& recorded_;
  const TimedGraph& graph_;
  const TickColumn& gap_;
  std::vector<Nodes> of_step_;
  std::vector<Start> last_end_;  ///< [step] Of its rank's steps up to it.
};

/// When the step before the window's ended: where a host runs ahead, on its
/// device.
std::optional<int64_t> end_before_ns(const TimedGraph& graph) {
  std::optional<int64_t> before_ns = graph.before_ns;
  for (const TimedGraph::Span& rank : graph.ranks) {
    if (before_ns && rank.is_recorded() && rank.begin_ns() > rank.start_ns)
      before_ns = std::max(*before_ns, rank.begin_ns());
  }
  return before_ns;
}

/// `longest_ns`, or less where the window's step counts from the end of the one
/// before (steps_over_ranks). A what-if may let ranks start earlier that were
/// late then: none of them has begun the step for longer than they have.
int64_t within_pace(const TimedGraph& graph, int64_t longest_ns,
                    int64_t last_end_ns) {
  const std::optional<int64_t> before_ns = end_before_ns(graph);
  if (!before_ns) return longest_ns;
  int64_t last_start_ns = -kEndOfTime;
  for (const TimedGraph::Span& rank : graph.ranks) {
    if (rank.is_recorded())
      last_start_ns = std::max(last_start_ns, rank.begin_ns());
  }
  return std::min(
      longest_ns,
      std::max<int64_t>(0, last_end_ns - std::min(*before_ns, last_start_ns)));
}

/// Steps in which a rank's recording begins, later than others': whatever a
/// what-if makes of what these did before, it begins when it was recorded to.
std::set<int32_t> late_beginnings(const std::vector<ReplayedStep>& steps) {
  std::map<uint32_t, int32_t> first;
  int32_t earliest = INT32_MAX;
  for (const ReplayedStep& one : steps) {
    const auto at = first.try_emplace(one.rank, one.step).first;
    at->second = std::min(at->second, one.step);
    earliest = std::min(earliest, one.step);
  }
  std::set<int32_t> late;
  for (const auto& [rank, step] : first) {
    if (step > earliest) late.insert(step);
  }
  return late;
}

std::vector<JobStep> join_steps(const std::vector<ReplayedStep>& steps,
                                const TimedGraph& recorded,
                                const TimedGraph& graph) {
  std::vector<StepMark> predicted, measured;
  std::map<int32_t, size_t> ranks;
  size_t most = 0;
  for (const ReplayedStep& one : steps) {
    const auto mark = [&](int64_t start_ns, int64_t time_ns) {
      return StepMark{.rank = one.rank,
                      .step = one.step,
                      .start_ns = start_ns,
                      .end_ns = saturating_add(start_ns, time_ns),
                      .warmup = one.is_warmup};
    };
    predicted.push_back(mark(one.start_ns, one.predicted_ns));
    measured.push_back(mark(one.measured_start_ns, one.measured_ns));
    if (!one.is_warmup) most = std::max(most, ++ranks[one.step]);
  }
  const auto after = steps_over_ranks(predicted, most, end_before_ns(graph));
  const auto before = steps_over_ranks(measured, most, end_before_ns(recorded));
  const std::set<int32_t> late = late_beginnings(steps);
  std::vector<JobStep> joined, from_their_beginning;
  for (size_t i = 0; i < after.size(); ++i) {
    joined.push_back({after[i].step, after[i].step_ns, before[i].step_ns});
    if (!late.contains(after[i].step))
      from_their_beginning.push_back(joined.back());
  }
  return from_their_beginning.empty() ? joined : from_their_beginning;
}

/// Of all steps that count, one after the other; 0 without any.
int64_t sum_of(const std::vector<ReplayedStep>& steps) {
  int64_t sum_ns = 0;
  for (const ReplayedStep& step : steps) {
    if (step.is_warmup) continue;
    sum_ns = saturating_add(sum_ns, std::max<int64_t>(step.predicted_ns, 0));
  }
  return sum_ns;
}

/// Gaps that no range names are taken out.
struct WithoutGaps {
  int64_t span_ns = 0, steps_ns = 0;

  static WithoutGaps of(const TimedGraph& recorded, const TimedGraph& graph) {
    const GraphTimes times = evaluate_trace(graph, graph.named);
    return {replayed_span_ns(graph, times),
            sum_of(StepMeasure(recorded, graph, times, graph.named).run())};
  }
  /// Of the steps that count, or the span without any.
  double share_of(int64_t whole_steps_ns, int64_t whole_span_ns) const {
    const bool by_steps = whole_steps_ns > 0;
    const int64_t whole_ns = by_steps ? whole_steps_ns : whole_span_ns;
    const int64_t rest_ns = by_steps ? steps_ns : span_ns;
    return whole_ns > 0
               ? static_cast<double>(rest_ns) / static_cast<double>(whole_ns)
               : 1;
  }
};

/// What of a path lies within the steps that count; all of it without any.
std::vector<PathEntry> within_steps(const std::vector<PathEntry>& path,
                                    const std::vector<ReplayedStep>& steps) {
  int64_t start_ns = kEndOfTime, end_ns = -kEndOfTime;
  for (const ReplayedStep& step : steps) {
    if (step.is_warmup) continue;
    start_ns = std::min(start_ns, step.start_ns);
    end_ns = std::max(end_ns, saturating_add(step.start_ns, step.predicted_ns));
  }
  if (start_ns >= end_ns) return path;
  return path_within(path, start_ns, end_ns);
}

}  // namespace

int64_t replayed_span_ns(const TimedGraph& graph, const GraphTimes& times) {
  int64_t longest_ns = 0, last_end_ns = -kEndOfTime;
  Ends ends(graph, times.end_ns);
  for (uint32_t node = 0; node < graph.size(); ++node) {
    const auto end_ns = ends.in_window(node);
    if (!end_ns) continue;
    const int64_t start_ns = graph.ranks[graph.rank[node]].begin_ns();
    longest_ns = std::max(longest_ns, *end_ns - start_ns);
    last_end_ns = std::max(last_end_ns, *end_ns);
  }
  return within_pace(graph, longest_ns, last_end_ns);
}

std::optional<int64_t> step_begin_ns(const TimedGraph& graph,
                                     const GraphTimes& times) {
  if (!graph.before_ns && !graph.of_one_step()) return std::nullopt;
  int64_t last_end_ns = -kEndOfTime;
  Ends ends(graph, times.end_ns);
  for (uint32_t node = 0; node < graph.size(); ++node)
    last_end_ns =
        std::max(last_end_ns, ends.in_window(node).value_or(last_end_ns));
  return last_end_ns - replayed_span_ns(graph, times);
}

int64_t recorded_span_ns(const TimedGraph& graph) {
  int64_t longest_ns = 0, last_end_ns = -kEndOfTime;
  for (const TimedGraph::Span& rank : graph.ranks) {
    longest_ns = std::max(longest_ns, rank.end_ns - rank.begin_ns());
    last_end_ns = std::max(last_end_ns, rank.end_ns);
  }
  return within_pace(graph, longest_ns, last_end_ns);
}

Result<TraceReplay> replay_trace(const Trace& trace, const TimedGraph& graph,
                                 std::span<const WhatIf> what_ifs) {
  return replay_trace(NodeFacts(trace), graph, what_ifs);
}

Result<TraceReplay> replay_trace(const NodeFacts& facts,
                                 const TimedGraph& graph,
                                 std::span<const WhatIf> what_ifs) {
  TimedGraph edited;
  for (const WhatIf& what_if : what_ifs) {
    if (edited.size() == 0) edited = graph;
    const Status applied = apply_what_if(what_if, facts, edited);
    if (!applied) return pass(applied.error());
  }
  if (!what_ifs.empty()) keep_under_way(graph, edited);
  const TimedGraph& chosen = what_ifs.empty() ? graph : edited;
  TraceReplay replay;
  // Before there are other times: each are 16 bytes an event.
  const WithoutGaps without = WithoutGaps::of(graph, chosen);
  GraphTimes times = evaluate(chosen);
  replay.steps = StepMeasure(graph, chosen, times, chosen.gap).run();
  replay.job_steps = join_steps(replay.steps, graph, chosen);
  replay.without_gaps_ns = without.span_ns;
  const int64_t span_ns = replayed_span_ns(chosen, times);
  replay.without_gaps_share = without.share_of(sum_of(replay.steps), span_ns);
  replay.as_recorded = what_ifs.empty();
  std::vector<uint32_t> last = last_nodes(chosen, times);
  const std::optional<int64_t> begin_ns = step_begin_ns(chosen, times);
  const auto path_to = [&](uint32_t node) {
    std::vector<PathEntry> path = critical_path_to(node, chosen, times, facts);
    return begin_ns ? path_within(path, *begin_ns, kEndOfTime)
                    : within_steps(path, replay.steps);
  };
  replay.critical_path = path_to(last.back());
  replay.sources = sources_of(replay.critical_path, nullptr);
  last.pop_back();
  for (const uint32_t node : last) {
    replay.rank_unexplained_share.push_back(
        sources_of(path_to(node), nullptr).unexplained);
  }
  replay.start_ns = std::move(times.start_ns);
  replay.end_ns = std::move(times.end_ns);
  measure_ranks(graph, chosen, replay);
  replay.predicted_ns = span_ns;
  replay.measured_ns = recorded_span_ns(graph);
  return replay;
}

}  // namespace reprise
