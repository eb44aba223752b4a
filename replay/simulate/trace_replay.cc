#include "replay/simulate/trace_replay.h"

#include <algorithm>

namespace reprise {
namespace {

// Gaps that no range names are taken out.
int64_t span_without_gaps(const TimedGraph& graph) {
  return replayed_span_ns(graph, evaluate_trace(graph, graph.named));
}

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
    const bool there = span.end_ns >= span.start_ns;
    replay.rank_predicted_ns.push_back(
        there ? end_ns[rank] - graph.ranks[rank].start_ns : 0);
    replay.rank_measured_ns.push_back(there ? span.end_ns - span.start_ns : 0);
    replay.predicted_ns =
        std::max(replay.predicted_ns, replay.rank_predicted_ns.back());
    replay.measured_ns =
        std::max(replay.measured_ns, replay.rank_measured_ns.back());
  }
}

// The predicted start of a step that follows none: as late or early as its
// first node.
void measure_steps(const TimedGraph& recorded, const TimedGraph& graph,
                   TraceReplay& replay) {
  const size_t count = graph.steps.size();
  std::vector<int64_t> end_ns(count), start_ns(count, kEndOfTime);
  for (size_t step = 0; step < count; ++step) {
    end_ns[step] = -kEndOfTime;
  }
  for (size_t node = 0; node < graph.size(); ++node) {
    if (graph.step[node] < 0) continue;
    const size_t step = static_cast<size_t>(graph.step[node]);
    end_ns[step] = std::max(end_ns[step], replay.end_ns[node]);
    start_ns[step] =
        std::min(start_ns[step], replay.start_ns[node] - graph.gap[node]);
  }
  for (size_t step = 0; step < count; ++step) {
    const TimedGraph::Span& mark = graph.steps[step];
    if (end_ns[step] == -kEndOfTime) continue;
    const bool follows = step > 0 && graph.steps[step - 1].rank == mark.rank &&
                         end_ns[step - 1] != -kEndOfTime;
    int64_t measured_from_ns = mark.start_ns;
    int64_t predicted_from_ns = start_ns[step];
    if (step == 0 || graph.steps[step - 1].rank != mark.rank) {
      predicted_from_ns = mark.start_ns + graph.ranks[mark.rank].start_ns -
                          recorded.ranks[mark.rank].start_ns;
    }
    if (follows) {
      measured_from_ns = graph.steps[step - 1].end_ns;
      predicted_from_ns = end_ns[step - 1];
    }
    replay.steps.push_back({mark.rank, mark.step,
                            end_ns[step] - predicted_from_ns,
                            mark.end_ns - measured_from_ns, predicted_from_ns});
  }
}

}  // namespace

int64_t replayed_span_ns(const TimedGraph& graph, const GraphTimes& times) {
  int64_t longest_ns = 0;
  for (size_t node = 0; node < graph.size(); ++node) {
    const int64_t start_ns = graph.ranks[graph.rank[node]].start_ns;
    longest_ns = std::max(longest_ns, times.end_ns[node] - start_ns);
  }
  return longest_ns;
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
  const TimedGraph& chosen = what_ifs.empty() ? graph : edited;
  TraceReplay replay;
  replay.without_gaps_ns = span_without_gaps(chosen);
  GraphTimes times = evaluate(chosen);
  replay.as_recorded = what_ifs.empty();
  std::vector<uint32_t> last = last_nodes(chosen, times);
  const auto path_to = [&](uint32_t node) {
    return critical_path_to(node, chosen, times, facts);
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
  measure_steps(graph, chosen, replay);
  return replay;
}

}  // namespace reprise
