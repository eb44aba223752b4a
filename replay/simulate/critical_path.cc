#include "replay/simulate/critical_path.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "replay/simulate/trace_replay.h"

namespace reprise {
namespace {

// Walks from the last node back through what each node waited for.
class PathWalk {
 public:
  PathWalk(const TimedGraph& graph, const GraphTimes& times,
           const NodeFacts& facts)
      : graph_(graph), times_(times), facts_(facts) {}

  std::vector<PathEntry> run(uint32_t node) {
    if (node == kNoPathNode) return {};
    cursor_ns_ = times_.end_ns[node];
    if (graph_.rules) {
      cursor_ns_ = times_.finish_ns;
      add(PathKind::kOverhead, node, times_.end_ns[node]);
    }
    bool at_end = true;  // Reached at its end, not at its start.
    uint32_t first = node;
    while (node != kNoPathNode) {
      if (at_end) node = through_duration(node);
      first = node;
      const Cause cause = cause_of(node);
      add_gap(node);
      if (cause.node != kNoPathNode) {
        add(kind_of_delay(cause), node, cause.time_ns);
      }
      node = cause.node;
      at_end = !cause.from_start;
    }
    if (graph_.rules) add(PathKind::kFeed, first, 0);
    std::reverse(path_.begin(), path_.end());
    return std::move(path_);
  }

 private:
  struct Cause {
    uint32_t node = kNoPathNode;
    int64_t time_ns = 0;  // Of its end or start.
    bool from_start = false;
    EdgeKind kind = EdgeKind::kThread;
  };

  int64_t time_of(const TimedGraph::Edge& edge) const {
    return edge.from_start ? times_.start_ns[edge.from]
                           : times_.end_ns[edge.from];
  }
  Cause cause_by(const TimedGraph::Edge& edge) const {
    return {edge.from, time_of(edge), edge.from_start, edge.kind};
  }

  // The node's own time; of a member that waited, its transfer, from where the
  // path goes on with the last to arrive.
  uint32_t through_duration(uint32_t node) {
    const PathKind kind = kind_of(node);
    if (graph_.waits[node] == 0) {
      add(kind, node, times_.start_ns[node]);
      return node;
    }
    const uint32_t last = last_to_arrive(node);
    add(kind, node,
        graph_.rules ? times_.begun_ns[node] : times_.start_ns[last]);
    return last;
  }

  uint32_t last_to_arrive(uint32_t node) const {
    uint32_t first = node;
    while (graph_.meeting[first] == 0) --first;
    uint32_t last = first;
    for (uint32_t at = first; at < first + graph_.meeting[first]; ++at) {
      if (graph_.rules && times_.cause[at] != GraphTimes::kNoEdge) {
        // Edges of a step stay on their rank.
        const uint32_t from = graph_.edges[times_.cause[at]].from;
        if (graph_.rank[at] == graph_.rank[from]) return at;
      }
      if (times_.start_ns[at] > times_.start_ns[last]) last = at;
    }
    return last_awaited(graph_, node, last, times_.start_ns);
  }

  Cause cause_of(uint32_t node) const {
    if (graph_.rules) {
      const uint32_t edge = times_.cause[node];
      return edge == GraphTimes::kNoEdge ? Cause{}
                                         : cause_by(graph_.edges[edge]);
    }
    Cause cause;
    int64_t ready_ns = graph_.ranks[graph_.rank[node]].start_ns;
    for (uint32_t at = graph_.first[node]; at < graph_.first[node + 1]; ++at) {
      const TimedGraph::Edge& edge = graph_.edges[at];
      const int64_t allowed_ns = time_of(edge) + edge.delay_ns;
      const bool later = allowed_ns > ready_ns;
      const bool same = allowed_ns == ready_ns &&
                        (cause.node == kNoPathNode || edge.from < cause.node);
      if (!later && !same) continue;
      ready_ns = allowed_ns;
      cause = cause_by(edge);
    }
    return cause;
  }

  PathKind kind_of(uint32_t node) const {
    return facts_.kind(graph_.origin[node]);
  }

  // A start-to-start delay on a stream is the earlier work's own time.
  PathKind kind_of_delay(const Cause& cause) const {
    const bool own = cause.from_start && cause.kind != EdgeKind::kLaunch;
    return own ? kind_of(cause.node) : PathKind::kLaunch;
  }

  void add_gap(uint32_t node) {
    if (graph_.rules) {
      add(PathKind::kDispatch, node,
          graph_.waits[node] != 0 ? times_.start_ns[node]
                                  : times_.begun_ns[node]);
      return;
    }
    const int64_t ready_ns = times_.start_ns[node] - graph_.gap[node];
    add(PathKind::kRange, node, graph_.range[node],
        ready_ns + graph_.gap[node] - graph_.named[node]);
    add(PathKind::kUnexplained, node, ready_ns);
  }

  void add(PathKind kind, uint32_t node, int64_t start_ns) {
    add(kind, node, graph_.origin[node], start_ns);
  }

  // Covers the path back to a time, unless it is covered that far.
  void add(PathKind kind, uint32_t node, uint32_t origin, int64_t start_ns) {
    if (start_ns >= cursor_ns_) return;
    const uint32_t place = graph_.ranks[graph_.rank[node]].rank;
    path_.push_back({kind, facts_.rank_number(place), origin, start_ns,
                     cursor_ns_ - start_ns});
    cursor_ns_ = start_ns;
  }

  const TimedGraph& graph_;
  const GraphTimes& times_;
  const NodeFacts& facts_;
  std::vector<PathEntry> path_;
  int64_t cursor_ns_ = 0;
};

// Sums of a path, in nanoseconds; PathSources then has their shares.
class SourceSums {
 public:
  explicit SourceSums(const PricedSchedule* priced) : priced_(priced) {}

  // `before` stands before `entry` on the path; null at its start.
  void add(const PathEntry& entry, const PathEntry* before) {
    const double time_ns = static_cast<double>(entry.duration_ns);
    whole_ns_ += time_ns;
    switch (entry.kind) {
      case PathKind::kUnexplained:
        sums_.unexplained += time_ns;
        break;
      case PathKind::kLaunch:
        sums_.dispatch += time_ns;
        break;
      case PathKind::kFeed:
        sums_.step_gaps += time_ns;
        break;
      case PathKind::kOverhead:  // What exceeds it is noise at the end.
        split(time_ns, {{priced_->step_overhead_ns, &sums_.step_gaps}},
              sums_.jitter);
        break;
      case PathKind::kDispatch:
        add_dispatch(entry, before);
        break;
      default:
        add_work(entry);
    }
  }

  PathSources shares() const {
    PathSources sources;
    if (whole_ns_ <= 0) return sources;
    sources = sums_;
    double rest = 1;
    for (double* const share :
         {&sources.calibrated, &sources.modelled, &sources.dispatch,
          &sources.wake_ups, &sources.jitter, &sources.step_gaps,
          &sources.preempted, &sources.unexplained}) {
      *share /= whole_ns_;
      rest -= *share;
    }
    sources.measured = rest;
    return sources;
  }

 private:
  struct Part {
    double most_ns = 0;
    double* sum = nullptr;
  };

  // Parts take what they may have of a time, in turn, and `last` the rest.
  static void split(double time_ns, std::initializer_list<Part> parts,
                    double& last) {
    for (const Part& part : parts) {
      const double taken_ns = std::min(time_ns, std::max(0.0, part.most_ns));
      *part.sum += taken_ns;
      time_ns -= taken_ns;
    }
    last += time_ns;
  }

  // Before a unit of compute: handing it over, which the fit explains in part,
  // and waking the thread. Before a transfer: its thread, and ranks that come
  // late by noise.
  void add_dispatch(const PathEntry& entry, const PathEntry* before) {
    const double time_ns = static_cast<double>(entry.duration_ns);
    if (priced_->schedule->units[entry.origin].stream == Stream::kCompute) {
      const double each_ns = priced_->unexplained_ns /
                             static_cast<double>(priced_->order.compute.size());
      split(time_ns,
            {{each_ns, &sums_.unexplained},
             {priced_->dispatch_ns, &sums_.dispatch}},
            sums_.wake_ups);
      return;
    }
    const bool is_after_transfer =
        before != nullptr && before->kind == PathKind::kCollective;
    split(time_ns,
          {{is_after_transfer ? priced_->communication_gap_ns
                              : priced_->communication_wake_ns,
            &sums_.wake_ups}},
          sums_.jitter);
  }

  void add_work(const PathEntry& entry) {
    if (priced_ == nullptr || entry.kind > PathKind::kCollective) return;
    double time_ns = static_cast<double>(entry.duration_ns);
    const double preempted_ns =
        std::min(time_ns, priced_->preempted_ns[entry.origin]);
    sums_.preempted += preempted_ns;
    time_ns -= preempted_ns;
    const PriceSource source = priced_->source[entry.origin];
    if (source == PriceSource::kCalibrated) sums_.calibrated += time_ns;
    if (source == PriceSource::kModelled) sums_.modelled += time_ns;
  }

  const PricedSchedule* priced_;
  PathSources sums_;  // `measured` is what remains.
  double whole_ns_ = 0;
};

}  // namespace

std::string_view path_name(const NodeFacts& facts, const PathEntry& entry) {
  return entry.kind > PathKind::kUnexplained ? name_of(entry.kind)
                                             : facts.name(entry.origin);
}

std::vector<uint32_t> last_nodes(const TimedGraph& graph,
                                 const GraphTimes& times) {
  std::vector<uint32_t> last(graph.ranks.size() + 1, kNoPathNode);
  const auto before = [&](uint32_t a, uint32_t b) {
    return graph.rules && std::pair(graph.rank[a], graph.origin[a]) <
                              std::pair(graph.rank[b], graph.origin[b]);
  };
  const auto take = [&](uint32_t& known, uint32_t node) {
    if (known == kNoPathNode || times.end_ns[node] > times.end_ns[known] ||
        (times.end_ns[node] == times.end_ns[known] && before(node, known))) {
      known = node;
    }
  };
  for (uint32_t node = 0; node < graph.size(); ++node) {
    take(last[graph.rank[node]], node);
    take(last.back(), node);
  }
  return last;
}

std::vector<PathEntry> critical_path_to(uint32_t node, const TimedGraph& graph,
                                        const GraphTimes& times,
                                        const NodeFacts& facts) {
  return PathWalk(graph, times, facts).run(node);
}

std::vector<PathEntry> path_within(const std::vector<PathEntry>& path,
                                   int64_t start_ns, int64_t end_ns) {
  std::vector<PathEntry> kept;
  for (PathEntry entry : path) {
    const int64_t entry_end_ns =
        saturating_add(entry.start_ns, entry.duration_ns);
    const bool had_time = entry.duration_ns > 0;
    if (entry_end_ns < start_ns || entry.start_ns > end_ns) continue;
    entry.start_ns = std::max(entry.start_ns, start_ns);
    entry.duration_ns = std::min(entry_end_ns, end_ns) - entry.start_ns;
    if (entry.duration_ns > 0 || !had_time) kept.push_back(entry);
  }
  return kept;
}

std::vector<PathEntry> critical_path(const TimedGraph& graph,
                                     const GraphTimes& times,
                                     const NodeFacts& facts) {
  std::vector<PathEntry> path =
      critical_path_to(last_nodes(graph, times).back(), graph, times, facts);
  const std::optional<int64_t> begin_ns = step_begin_ns(graph, times);
  return begin_ns ? path_within(path, *begin_ns, kEndOfTime) : path;
}

CriticalPath::CriticalPath(std::vector<PathEntry> path,
                           std::optional<int32_t> of_step)
    : step(of_step), entries(std::move(path)) {
  for (const PathEntry& entry : entries) {
    by_kind_ns[static_cast<size_t>(entry.kind)] += entry.duration_ns;
    length_ns += entry.duration_ns;
  }
}

PathSources sources_of(const std::vector<PathEntry>& path,
                       const PricedSchedule* priced) {
  SourceSums sums(priced);
  for (size_t at = 0; at < path.size(); ++at)
    sums.add(path[at], at == 0 ? nullptr : &path[at - 1]);
  return sums.shares();
}

}  // namespace reprise
