#include "replay/simulate/trace_replay.h"

#include <algorithm>
#include <map>
#include <optional>

#include "data/integers.h"
#include "data/trace/step_times.h"
#include "replay/simulate/graph_edits.h"

namespace reprise {
namespace {

void measure_ranks(const TimedGraph& recorded, const TimedGraph& graph,
                   TraceReplay& replay) {
  std::vector<int64_t> end_ns;
  for (const TimedGraph::Span& rank : graph.ranks) {
    end_ns.push_back(rank.start_ns);
  }
  for (size_t node = 0; node < graph.size(); ++node) {
    int64_t& end = end_ns[graph.rank[node]];
    end = std::max(end, replay.end_ns[node]);
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

// The predicted start of a step that follows none: as late or early as its
// first node.
std::vector<ReplayedStep> measure_steps(const TimedGraph& recorded,
                                        const TimedGraph& graph,
                                        const GraphTimes& times) {
  const size_t count = graph.steps.size();
  std::vector<int64_t> end_ns(count), start_ns(count, kEndOfTime);
  for (size_t step = 0; step < count; ++step) {
    end_ns[step] = -kEndOfTime;
  }
  for (size_t node = 0; node < graph.size(); ++node) {
    if (graph.step[node] < 0) continue;
    const size_t step = static_cast<size_t>(graph.step[node]);
    end_ns[step] = std::max(end_ns[step], times.end_ns[node]);
    start_ns[step] =
        std::min(start_ns[step], times.start_ns[node] - graph.gap[node]);
  }
  std::vector<ReplayedStep> steps;
  for (size_t step = 0; step < count; ++step) {
    const TimedGraph::Span& mark = graph.steps[step];
    if (end_ns[step] == -kEndOfTime) continue;
    const bool follows = step > 0 && graph.steps[step - 1].rank == mark.rank &&
                         end_ns[step - 1] != -kEndOfTime;
    int64_t measured_from_ns = mark.start_ns;
    int64_t predicted_from_ns = start_ns[step];
    if (step == 0 || graph.steps[step - 1].rank != mark.rank) {
      const TimedGraph::Span& rank = recorded.ranks[mark.rank];
      if (rank.busy_until_ns > mark.start_ns)
        measured_from_ns = rank.begin_ns();
      predicted_from_ns = measured_from_ns + graph.ranks[mark.rank].begin_ns() -
                          rank.begin_ns();
    }
    if (follows) {
      measured_from_ns = graph.steps[step - 1].end_ns;
      predicted_from_ns = end_ns[step - 1];
    }
    steps.push_back({.rank = mark.rank,
                     .step = mark.step,
                     .predicted_ns = end_ns[step] - predicted_from_ns,
                     .measured_ns = mark.end_ns - measured_from_ns,
                     .start_ns = predicted_from_ns,
                     .measured_start_ns = measured_from_ns,
                     .is_warmup = mark.is_warmup});
  }
  return steps;
}

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
  std::vector<JobStep> joined;
  for (size_t i = 0; i < after.size(); ++i) {
    joined.push_back({after[i].step, after[i].step_ns, before[i].step_ns});
  }
  return joined;
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
            sum_of(measure_steps(recorded, graph, times))};
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
  for (size_t node = 0; node < graph.size(); ++node) {
    const int64_t start_ns = graph.ranks[graph.rank[node]].begin_ns();
    longest_ns = std::max(longest_ns, times.end_ns[node] - start_ns);
    last_end_ns = std::max(last_end_ns, times.end_ns[node]);
  }
  return within_pace(graph, longest_ns, last_end_ns);
}

std::optional<int64_t> step_begin_ns(const TimedGraph& graph,
                                     const GraphTimes& times) {
  const bool of_step =
      graph.before_ns ||
      std::any_of(graph.ranks.begin(), graph.ranks.end(),
                  [](const TimedGraph::Span& rank) {
                    return rank.busy_until_ns != TimedGraph::Span::kNever;
                  });
  if (!of_step) return std::nullopt;
  int64_t last_end_ns = -kEndOfTime;
  for (const int64_t end_ns : times.end_ns)
    last_end_ns = std::max(last_end_ns, end_ns);
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
  replay.steps = measure_steps(graph, chosen, times);
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
