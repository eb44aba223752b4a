#include "replay/simulate/trace_replay.h"

#include <algorithm>

namespace reprise {
namespace {

// Times stop here, whatever a what-if makes of damaged durations.
constexpr int64_t kEndOfTime = 4'000'000'000'000'000'000;

int64_t ready_time(const TraceGraph& graph, const TraceTimes& times,
                   uint32_t node) {
  int64_t ready_ns = graph.ranks[graph.rank[node]].start_ns;
  for (uint32_t at = graph.first[node]; at < graph.first[node + 1]; ++at) {
    const TraceGraph::Edge& edge = graph.edges[at];
    const int64_t from_ns =
        edge.from_start ? times.start_ns[edge.from] : times.end_ns[edge.from];
    ready_ns = std::max(ready_ns, from_ns + edge.delay_ns);
  }
  return ready_ns;
}

constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

// [rank place] The node that ends last, the lower one of two; and over all
// ranks, as the last entry. kNone: there is no node.
std::vector<uint32_t> last_nodes(const TraceGraph& graph,
                                 const TraceTimes& times) {
  std::vector<uint32_t> last(graph.ranks.size() + 1, kNone);
  const auto take = [&](uint32_t& known, uint32_t node) {
    if (known == kNone || times.end_ns[node] > times.end_ns[known]) {
      known = node;
    }
  };
  for (uint32_t node = 0; node < graph.size(); ++node) {
    take(last[graph.rank[node]], node);
    take(last.back(), node);
  }
  return last;
}

// Walks from the last node back through what each node waited for.
class PathWalk {
 public:
  PathWalk(const Trace& trace, const TraceGraph& graph, const TraceTimes& times)
      : trace_(trace), graph_(graph), times_(times) {}

  // Ends at `node`; kNone: an empty path.
  std::vector<TracePathEntry> run(uint32_t node) {
    if (node == kNone) return {};
    cursor_ns_ = times_.end_ns[node];
    bool at_end = true;  // Reached at its end, not at its start.
    while (node != kNone) {
      if (at_end) {
        node = through_duration(node);
      }
      const Cause cause = cause_of(node);
      add_gap(node);
      if (cause.node != kNone) {
        add(kind_of_delay(cause), node, cause.time_ns);
      }
      node = cause.node;
      at_end = !cause.from_start;
    }
    std::reverse(path_.begin(), path_.end());
    return std::move(path_);
  }

 private:
  struct Cause {
    uint32_t node = kNone;
    int64_t time_ns = 0;  // Of its end or start.
    bool from_start = false;
    TraceEdgeKind kind = TraceEdgeKind::kThread;
  };

  // The node's own time; of a member that waited, its transfer, from where the
  // path goes on with the last to arrive.
  uint32_t through_duration(uint32_t node) {
    const TracePathKind kind = kind_of(node);
    if (graph_.waits[node] == 0) {
      add(kind, node, times_.start_ns[node]);
      return node;
    }
    uint32_t first = node;
    while (graph_.meeting[first] == 0) --first;
    uint32_t last = first;
    for (uint32_t at = first; at < first + graph_.meeting[first]; ++at) {
      if (times_.start_ns[at] > times_.start_ns[last]) last = at;
    }
    add(kind, node, times_.start_ns[last]);
    return last;
  }

  Cause cause_of(uint32_t node) const {
    Cause cause;
    int64_t ready_ns = graph_.ranks[graph_.rank[node]].start_ns;
    for (uint32_t at = graph_.first[node]; at < graph_.first[node + 1]; ++at) {
      const TraceGraph::Edge& edge = graph_.edges[at];
      const int64_t from_ns = edge.from_start ? times_.start_ns[edge.from]
                                              : times_.end_ns[edge.from];
      const int64_t allowed_ns = from_ns + edge.delay_ns;
      const bool later = allowed_ns > ready_ns;
      const bool same = allowed_ns == ready_ns &&
                        (cause.node == kNone || edge.from < cause.node);
      if (!later && !same) continue;
      ready_ns = allowed_ns;
      cause = {edge.from, from_ns, edge.from_start, edge.kind};
    }
    return cause;
  }

  TracePathKind kind_of(uint32_t node) const {
    const Event& event = trace_.events[graph_.event[node]];
    const StreamKind stream = trace_.streams[event.stream].kind;
    if (event.kind == EventKind::kCollective) return TracePathKind::kCollective;
    if (stream == StreamKind::kHostThread) return TracePathKind::kHost;
    switch (event.kind) {
      case EventKind::kCopy:
      case EventKind::kMemset:
        return TracePathKind::kCopy;
      case EventKind::kCompute:
        return TracePathKind::kKernel;
      default:
        return TracePathKind::kHost;
    }
  }

  // A start-to-start delay on a stream is the earlier work's own time.
  TracePathKind kind_of_delay(const Cause& cause) const {
    const bool own = cause.from_start && cause.kind != TraceEdgeKind::kLaunch;
    return own ? kind_of(cause.node) : TracePathKind::kLaunch;
  }

  void add_gap(uint32_t node) {
    const int64_t ready_ns = times_.start_ns[node] - graph_.gap_ns[node];
    add(TracePathKind::kRange, node, graph_.range[node],
        ready_ns + graph_.gap_ns[node] - graph_.named_ns[node]);
    add(TracePathKind::kUnexplained, node, ready_ns);
  }

  void add(TracePathKind kind, uint32_t node, int64_t start_ns) {
    add(kind, node, graph_.event[node], start_ns);
  }

  // Covers the path back to a time, unless it is covered that far.
  void add(TracePathKind kind, uint32_t node, uint32_t event,
           int64_t start_ns) {
    if (start_ns >= cursor_ns_) return;
    path_.push_back({kind, trace_.ranks[graph_.rank[node]].rank, event,
                     start_ns, cursor_ns_ - start_ns});
    cursor_ns_ = start_ns;
  }

  const Trace& trace_;
  const TraceGraph& graph_;
  const TraceTimes& times_;
  std::vector<TracePathEntry> path_;
  int64_t cursor_ns_ = 0;
};

// Gaps that no range names are taken out.
int64_t span_without_gaps(TraceGraph graph) {
  graph.gap_ns = graph.named_ns;
  const TraceTimes times = evaluate(graph);
  int64_t longest_ns = 0;
  for (size_t node = 0; node < graph.size(); ++node) {
    const int64_t start_ns = graph.ranks[graph.rank[node]].start_ns;
    longest_ns = std::max(longest_ns, times.end_ns[node] - start_ns);
  }
  return longest_ns;
}

double unexplained_share(const std::vector<TracePathEntry>& path) {
  double whole = 0, gaps = 0;
  for (const TracePathEntry& entry : path) {
    const double duration_ns = static_cast<double>(entry.duration_ns);
    whole += duration_ns;
    if (entry.kind == TracePathKind::kUnexplained) gaps += duration_ns;
  }
  return whole > 0 ? gaps / whole : 0;
}

void measure_ranks(const TraceGraph& recorded, const TraceGraph& graph,
                   TraceReplay& replay) {
  std::vector<int64_t> end_ns;
  for (const TraceGraph::Span& rank : graph.ranks) {
    end_ns.push_back(rank.start_ns);
  }
  for (size_t node = 0; node < graph.size(); ++node) {
    int64_t& end = end_ns[graph.rank[node]];
    end = std::max(end, replay.end_ns[node]);
  }
  for (size_t rank = 0; rank < graph.ranks.size(); ++rank) {
    const TraceGraph::Span& span = recorded.ranks[rank];
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
void measure_steps(const TraceGraph& recorded, const TraceGraph& graph,
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
        std::min(start_ns[step], replay.start_ns[node] - graph.gap_ns[node]);
  }
  for (size_t step = 0; step < count; ++step) {
    const TraceGraph::Span& mark = graph.steps[step];
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

std::string_view name_of(TracePathKind kind) {
  switch (kind) {
    case TracePathKind::kKernel:
      return "kernel";
    case TracePathKind::kCollective:
      return "collective";
    case TracePathKind::kCopy:
      return "copy";
    case TracePathKind::kHost:
      return "host";
    case TracePathKind::kLaunch:
      return "launch";
    case TracePathKind::kRange:
      return "range";
    case TracePathKind::kUnexplained:
      return "unexplained";
  }
  return "";
}

TraceTimes evaluate(const TraceGraph& graph) {
  TraceTimes times;
  const uint32_t count = static_cast<uint32_t>(graph.size());
  times.start_ns.resize(count);
  times.end_ns.resize(count);
  for (uint32_t node = 0; node < count;) {
    const uint32_t meets = graph.meeting[node];
    int64_t arrival_ns = -kEndOfTime;
    for (uint32_t at = node; at < node + meets; ++at) {
      const int64_t start_ns = ready_time(graph, times, at) + graph.gap_ns[at];
      times.start_ns[at] = std::min(start_ns, kEndOfTime);
      arrival_ns = std::max(arrival_ns, times.start_ns[at]);
    }
    for (uint32_t at = node; at < node + meets; ++at) {
      const int64_t from_ns =
          graph.waits[at] != 0 ? arrival_ns : times.start_ns[at];
      times.end_ns[at] = std::min(from_ns + graph.duration_ns[at], kEndOfTime);
    }
    node += meets;
  }
  return times;
}

std::vector<TracePathEntry> critical_path(const Trace& trace,
                                          const TraceGraph& graph,
                                          const TraceTimes& times) {
  return PathWalk(trace, graph, times).run(last_nodes(graph, times).back());
}

Result<TraceReplay> replay_trace(const Trace& trace, const TraceGraph& graph,
                                 std::span<const WhatIf> what_ifs) {
  TraceGraph edited;
  for (const WhatIf& what_if : what_ifs) {
    if (edited.size() == 0) edited = graph;
    const Status applied = apply_what_if(what_if, trace, edited);
    if (!applied) return pass(applied.error());
  }
  const TraceGraph& chosen = what_ifs.empty() ? graph : edited;
  TraceTimes times = evaluate(chosen);
  TraceReplay replay;
  std::vector<uint32_t> last = last_nodes(chosen, times);
  replay.critical_path = PathWalk(trace, chosen, times).run(last.back());
  replay.unexplained_share = unexplained_share(replay.critical_path);
  last.pop_back();
  for (const uint32_t node : last) {
    replay.rank_unexplained_share.push_back(
        unexplained_share(PathWalk(trace, chosen, times).run(node)));
  }
  replay.without_gaps_ns = span_without_gaps(chosen);
  replay.start_ns = std::move(times.start_ns);
  replay.end_ns = std::move(times.end_ns);
  measure_ranks(graph, chosen, replay);
  measure_steps(graph, chosen, replay);
  return replay;
}

}  // namespace reprise
