#include "replay/graph/evaluate.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "replay/graph/step_rules.h"

namespace reprise {
namespace {

int64_t ready_time(const TimedGraph& graph, const GraphTimes& times,
                   uint32_t node) {
  int64_t ready_ns = graph.ranks[graph.rank[node]].start_ns;
  for (uint32_t at = graph.first[node]; at < graph.first[node + 1]; ++at) {
    const TimedGraph::Edge& edge = graph.edges[at];
    const int64_t from_ns =
        edge.from_start ? times.start_ns[edge.from] : times.end_ns[edge.from];
    ready_ns = std::max(ready_ns, from_ns + edge.delay_ns);
  }
  return ready_ns;
}

// The sweep over a step, by its rules.
class StepSweep {
 public:
  explicit StepSweep(const TimedGraph& graph)
      : graph_(graph),
        rules_(*graph.rules),
        credits_(graph.ranks.size(), LinkCredit(rules_)),
        ranks_(graph.ranks.size()),
        apart_ns_(graph.size(), 0) {
    times_.start_ns.resize(graph.size());
    times_.end_ns.resize(graph.size());
    times_.begun_ns.resize(graph.size());
    times_.cause.assign(graph.size(), GraphTimes::kNoEdge);
  }

  GraphTimes run() {
    const uint32_t count = static_cast<uint32_t>(graph_.size());
    int64_t last_ns = graph_.ranks.front().start_ns;
    for (uint32_t node = 0; node < count;) {
      if (graph_.collective[node] < 0) {
        compute(node++);
      } else {
        transfer(node);
        node += graph_.meeting[node];
      }
      last_ns = std::max(last_ns, times_.end_ns[node - 1]);
    }
    times_.finish_ns = step_end_ns(rules_, last_ns, ranks_);
    return std::move(times_);
  }

 private:
  int64_t rounded_up(int64_t ticks) const {
    return (ticks + (int64_t{1} << graph_.tick_bits) - 1) >> graph_.tick_bits;
  }

  // The queue that shows the end of a cause first, of equal times.
  uint32_t queue_of(uint32_t cause) const {
    return cause == GraphTimes::kNoEdge
               ? 0
               : graph_.resource[graph_.edges[cause].from];
  }

  // When edges allow the node, and which was the last to.
  int64_t pull(uint32_t node) {
    int64_t ready_ns = graph_.ranks[graph_.rank[node]].start_ns;
    uint32_t& cause = times_.cause[node];
    for (uint32_t at = graph_.first[node]; at < graph_.first[node + 1]; ++at) {
      const TimedGraph::Edge& edge = graph_.edges[at];
      const int64_t from_ns = (edge.from_start ? times_.start_ns[edge.from]
                                               : times_.end_ns[edge.from]) +
                              edge.delay_ns;
      if (from_ns < ready_ns) continue;
      if (from_ns == ready_ns && queue_of(at) < queue_of(cause)) continue;
      ready_ns = from_ns;
      cause = at;
    }
    return ready_ns;
  }

  bool from_transfer(uint32_t cause) const {
    return graph_.collective[graph_.edges[cause].from] >= 0;
  }

  void compute(uint32_t node) {
    RankState& rank = ranks_[graph_.rank[node]];
    const int64_t begun_ns = pull(node);
    const uint32_t cause = times_.cause[node];
    const bool woken = cause != GraphTimes::kNoEdge && from_transfer(cause);
    const int64_t gap = graph_.gap[node] + (woken ? rules_.wake : 0);
    times_.begun_ns[node] = begun_ns;
    times_.start_ns[node] = begun_ns + rounded_up(gap);
    const int64_t end_ns = begun_ns + rounded_up(gap + graph_.duration[node]);
    times_.end_ns[node] = rank.compute_end_ns = end_ns;
    if (woken) rank.apart_ns = 0;
    apart_ns_[node] = rank.apart_ns += end_ns - times_.start_ns[node];
  }

  void transfer(uint32_t first) {
    const uint32_t end = first + graph_.meeting[first];
    uint32_t last = first;
    for (uint32_t node = first; node < end; ++node) {
      times_.start_ns[node] = pull(node);
      const bool later =
          times_.start_ns[node] > times_.start_ns[last] ||
          (times_.start_ns[node] == times_.start_ns[last] &&
           queue_of(times_.cause[node]) >= queue_of(times_.cause[last]));
      if (later) last = node;
    }
    const uint32_t cause = times_.cause[last];
    double delay_ns = 0;
    if (cause != GraphTimes::kNoEdge) {
      delay_ns =
          from_transfer(cause)
              ? rules_.arrival_gap_ns
              : rules_.arrival_wake_ns +
                    lateness_ns(rules_, apart_ns_[graph_.edges[cause].from]);
    }
    const int64_t begun_ns =
        times_.start_ns[last] + std::llround(std::max(0.0, delay_ns));
    const int64_t end_ns = begun_ns + sent_ns(first, begun_ns);
    for (uint32_t node = first; node < end; ++node) {
      times_.begun_ns[node] = begun_ns;
      times_.end_ns[node] = end_ns;
      times_.cause[node] = cause;
    }
  }

  int64_t sent_ns(uint32_t first, int64_t begun_ns) {
    if (rules_.burst_ns <= 0) return rounded_up(graph_.duration[first]);
    const StepRules::Transfer& transfer =
        rules_.transfers[static_cast<size_t>(graph_.collective[first])];
    LinkCredit& credit = credits_[graph_.rank[first]];
    const int64_t ticks =
        ticks_of(credit.spend(rules_, transfer, begun_ns), graph_.tick_bits);
    credit.settle(rules_, transfer, begun_ns + rounded_up(ticks));
    return rounded_up(ticks);
  }

  const TimedGraph& graph_;
  const StepRules& rules_;
  GraphTimes times_;
  std::vector<LinkCredit> credits_;  // [rank]
  std::vector<RankState> ranks_;
  std::vector<int64_t> apart_ns_;  // [node] of its rank, at its end.
};

}  // namespace

uint32_t last_awaited(const TimedGraph& graph, uint32_t node, uint32_t last,
                      const std::vector<int64_t>& start_ns) {
  if (graph.partners.empty()) return last;
  const std::span partners = graph.partners_of(node);
  if (partners.empty()) return last;
  uint32_t awaited = node;
  for (const TimedGraph::Partner& partner : partners) {
    if (start_ns[partner.awaited] > start_ns[awaited])
      awaited = partner.awaited;
  }
  return awaited;
}

GraphTimes evaluate_trace(const TimedGraph& graph, const TickColumn& gap,
                          GraphTimes times) {
  const uint32_t count = static_cast<uint32_t>(graph.size());
  times.start_ns.resize(count);
  times.end_ns.resize(count);
  for (uint32_t node = 0; node < count;) {
    const uint32_t meets = graph.meeting[node];
    if (meets == 1) {  // Nearly all.
      const int64_t start_ns =
          std::min(ready_time(graph, times, node) + gap[node], kEndOfTime);
      times.start_ns[node] = start_ns;
      times.end_ns[node] =
          std::min(start_ns + graph.duration[node], kEndOfTime);
      ++node;
      continue;
    }
    const uint32_t end = node + meets;
    uint32_t last = node;
    for (uint32_t at = node; at < end; ++at) {
      const int64_t start_ns = ready_time(graph, times, at) + gap[at];
      times.start_ns[at] = std::min(start_ns, kEndOfTime);
      if (times.start_ns[at] > times.start_ns[last]) last = at;
    }
    for (; node < end; ++node) {
      const int64_t from_ns =
          graph.waits[node] != 0
              ? times.start_ns[last_awaited(graph, node, last, times.start_ns)]
              : times.start_ns[node];
      times.end_ns[node] = std::min(from_ns + graph.duration[node], kEndOfTime);
    }
  }
  return times;
}

GraphTimes evaluate(const TimedGraph& graph, GraphTimes room) {
  return graph.rules ? StepSweep(graph).run()
                     : evaluate_trace(graph, graph.gap, std::move(room));
}

}  // namespace reprise
