#include "replay/simulate/trace_replay_timeline.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "data/integers.h"
#include "data/trace/event_order.h"
#include "data/trace/intervals.h"
#include "replay/collectives/collective_description.h"
#include "replay/graph/trace_graph_draft.h"

namespace reprise {
namespace {

// Where recorded times of one host thread come to lie.
class ThreadTimes {
 public:
  void add(int64_t recorded_ns, int64_t predicted_ns) {
    anchors_.emplace_back(recorded_ns, predicted_ns);
  }
  void sort() { std::sort(anchors_.begin(), anchors_.end()); }
  bool empty() const { return anchors_.empty(); }
  void clear() { anchors_ = std::vector<Anchor>(); }

  int64_t start(int64_t time_ns) const {
    const auto after = std::upper_bound(anchors_.begin(), anchors_.end(),
                                        Anchor{time_ns, kLast});
    return between(after, time_ns);
  }
  int64_t end(int64_t time_ns) const {
    const auto at = std::lower_bound(anchors_.begin(), anchors_.end(),
                                     Anchor{time_ns, -kLast});
    if (at != anchors_.end() && at->first == time_ns) return at->second;
    return between(at, time_ns);
  }

 private:
  using Anchor = std::pair<int64_t, int64_t>;  // Recorded, predicted.
  static constexpr int64_t kLast = std::numeric_limits<int64_t>::max();

  int64_t between(std::vector<Anchor>::const_iterator after,
                  int64_t time_ns) const {
    if (after == anchors_.begin()) {
      return saturating_add(after->second, time_ns - after->first);
    }
    const Anchor& before = *std::prev(after);
    const int64_t since_ns = time_ns - before.first;
    if (after == anchors_.end()) return saturating_add(before.second, since_ns);
    const double part = static_cast<double>(since_ns) /
                        static_cast<double>(after->first - before.first);
    return before.second +
           static_cast<int64_t>(
               part * static_cast<double>(after->second - before.second));
  }

  std::vector<Anchor> anchors_;
};

class Builder {
 public:
  Builder(const TraceByRank& by_rank, const TimedGraph& graph,
          const TraceReplay& replay)
      : by_rank_(by_rank),
        trace_(by_rank.frame()),
        graph_(graph),
        replay_(replay) {
    for (const RankInfo& rank : trace_.ranks) clocks_.emplace_back(rank);
    if (!replay.as_recorded) changed_from_ = evaluate(graph);
    find_nodes();
  }

  ReplayTimeline run() {
    copy_frame(timeline_.recorded);
    copy_frame(timeline_.predicted);
    timeline_.recorded_place.assign(by_rank_.event_count(),
                                    ReplayTimeline::kNoEvent);
    timeline_.predicted_place = timeline_.recorded_place;
    for (const uint32_t rank : ranks_in_order()) place_rank(rank);
    if (graph_.timed) {
      sort(timeline_.recorded, timeline_.recorded_place);
    } else {
      timeline_.recorded.events.clear();
    }
    sort(timeline_.predicted, timeline_.predicted_place);
    add_steps();
    return std::move(timeline_);
  }

  void visit_ranks(const RankVisitor& visit) {
    keeps_recorded_ = false;
    copy_frame(timeline_.predicted);
    for (uint32_t rank = 0; rank < trace_.ranks.size(); ++rank) {
      place_rank(rank);
      sort_events(timeline_.predicted.events);
      visit(rank, timeline_.predicted);
      timeline_.predicted.events.clear();
      added_.clear();
    }
  }

 private:
  void copy_frame(Trace& part) const {
    part.environment = trace_.environment;
    part.strings = trace_.strings;
    part.ranks = trace_.ranks;
    for (RankInfo& rank : part.ranks) {
      rank.clock_offset_ns = rank.clock_residual_ns = 0;
      rank.clock_drift_ppm = 0;
      rank.clock_domain = "";
    }
    part.streams = trace_.streams;
    part.collectives = trace_.collectives;
    part.synchronizations = trace_.synchronizations;
  }

  const std::vector<int64_t>& recorded_start_ns() const {
    return replay_.as_recorded ? replay_.start_ns : changed_from_.start_ns;
  }
  const std::vector<int64_t>& recorded_end_ns() const {
    return replay_.as_recorded ? replay_.end_ns : changed_from_.end_ns;
  }

  // Places of ranks in the order of their events.
  std::vector<uint32_t> ranks_in_order() const {
    std::vector<uint32_t> order(trace_.ranks.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      return trace_.ranks[a].rank < trace_.ranks[b].rank;
    });
    return order;
  }

  // The nodes, rank by rank.
  void find_nodes() {
    node_first_.assign(trace_.ranks.size() + 1, 0);
    for (uint32_t node = 0; node < graph_.size(); ++node) {
      ++node_first_[graph_.rank[node] + 1];
    }
    std::partial_sum(node_first_.begin(), node_first_.end(),
                     node_first_.begin());
    nodes_.resize(graph_.size());
    std::vector<uint32_t> next(node_first_.begin(), node_first_.end() - 1);
    for (uint32_t node = 0; node < graph_.size(); ++node) {
      nodes_[next[graph_.rank[node]]++] = node;
    }
    threads_.resize(trace_.streams.size());
    rank_of_stream_.assign(trace_.streams.size(), kNone);
  }

  // First and last node of each event of a rank, and the anchors of its host
  // threads; then its events.
  void place_rank(uint32_t rank) {
    const RankEvents events = by_rank_.of_rank(trace_.ranks[rank].rank);
    base_ = events.base;
    first_event_ = events.first;
    first_.assign(events.last - events.first, kNone);
    last_ = first_;
    for (ThreadTimes& thread : threads_) thread.clear();
    for (uint32_t at = node_first_[rank]; at < node_first_[rank + 1]; ++at) {
      add_anchors(nodes_[at]);
    }
    for (ThreadTimes& thread : threads_) thread.sort();
    for (uint32_t event = events.first; event < events.last; ++event) {
      place(event);
    }
  }

  void add_anchors(uint32_t node) {
    if (graph_.under_way(node)) return;
    const uint32_t event = graph_.origin[node] - base_;
    const uint32_t at = event - first_event_;
    if (first_[at] == kNone) first_[at] = node;
    last_[at] = node;
    const uint32_t stream = trace_.events[event].stream;
    if (trace_.streams[stream].kind != StreamKind::kHostThread) return;
    if (is_posted_message(trace_, trace_.events[event])) return;
    rank_of_stream_[stream] = graph_.rank[node];
    threads_[stream].add(recorded_start_ns()[node], replay_.start_ns[node]);
    threads_[stream].add(recorded_end_ns()[node], replay_.end_ns[node]);
  }

  void place(uint32_t index) {
    const Event& event = trace_.events[index];
    const ThreadTimes& thread = threads_[event.stream];
    if (!thread.empty() && event.kind != EventKind::kCollective) {
      place_on_thread(index, thread);
      return;
    }
    const uint32_t at = index - first_event_;
    if (first_[at] == kNone) return;
    const RankClock& clock = clocks_[graph_.rank[first_[at]]];
    add(index, clock.at(event.start_ns), clock.at(event.end_ns),
        replay_.start_ns[first_[at]], replay_.end_ns[last_[at]]);
  }

  // Within the window; a range that reaches beyond it is cut there.
  void place_on_thread(uint32_t index, const ThreadTimes& thread) {
    const Event& event = trace_.events[index];
    const uint32_t rank = rank_of_stream_[event.stream];
    const TimedGraph::Span& window = graph_.ranks[rank];
    int64_t start_ns = clocks_[rank].at(event.start_ns);
    int64_t end_ns = clocks_[rank].at(event.end_ns);
    if (start_ns > window.end_ns || end_ns < window.start_ns) return;
    start_ns = std::max(start_ns, window.start_ns);
    end_ns = std::clamp(end_ns, start_ns, window.end_ns);
    add(index, start_ns, end_ns, thread.start(start_ns), thread.end(end_ns));
  }

  void add(uint32_t index, int64_t start_ns, int64_t end_ns,
           int64_t predicted_start_ns, int64_t predicted_end_ns) {
    Event event = trace_.events[index];
    event.enqueue_ns = event.start_ns = start_ns;
    event.end_ns = std::max(start_ns, end_ns);
    if (keeps_recorded_) timeline_.recorded.events.push_back(event);
    event.enqueue_ns = event.start_ns = predicted_start_ns;
    event.end_ns = std::max(predicted_start_ns, predicted_end_ns);
    timeline_.predicted.events.push_back(event);
    added_.push_back(base_ + index);
  }

  void sort(Trace& part, std::vector<uint32_t>& places) const {
    const std::vector<uint32_t> order = event_order(part.events);
    std::vector<Event> sorted;
    sorted.reserve(part.events.size());
    for (uint32_t at = 0; at < part.events.size(); ++at) {
      const uint32_t from = order.empty() ? at : order[at];
      places[added_[from]] = at;
      sorted.push_back(part.events[from]);
    }
    part.events = std::move(sorted);
  }

  void add_steps() {
    for (const ReplayedStep& step : replay_.steps) {
      const uint32_t rank = trace_.ranks[step.rank].rank;
      timeline_.predicted.steps.push_back(
          {.rank = rank,
           .step = step.step,
           .start_ns = step.start_ns,
           .end_ns = step.start_ns + step.predicted_ns});
    }
    for (const TimedGraph::Span& step : graph_.steps) {
      timeline_.recorded.steps.push_back({.rank = trace_.ranks[step.rank].rank,
                                          .step = step.step,
                                          .start_ns = step.start_ns,
                                          .end_ns = step.end_ns});
    }
  }

  static constexpr uint32_t kNone = ReplayTimeline::kNoEvent;

  const TraceByRank& by_rank_;
  const Trace& trace_;  // Its events: of the rank at work.
  const TimedGraph& graph_;
  const TraceReplay& replay_;
  ReplayTimeline timeline_;
  std::vector<RankClock> clocks_;  // [rank place]
  GraphTimes changed_from_;        // As recorded, where the replay is not.
  bool keeps_recorded_ = true;
  std::vector<uint32_t> nodes_, node_first_;  // Rank by rank.
  uint32_t base_ = 0;                         // Number of trace_.events[0].
  uint32_t first_event_ = 0;                  // Of the rank, in trace_.events.
  std::vector<uint32_t> first_, last_;        // [event of the rank] node
  std::vector<ThreadTimes> threads_;          // [stream]
  std::vector<uint32_t> rank_of_stream_;      // [stream] place
  std::vector<uint32_t> added_;               // Event of each that was added.
};

}  // namespace

ReplayTimeline replay_timeline(const Trace& trace, const TimedGraph& graph,
                               const TraceReplay& replay) {
  return Builder(TraceByRank::borrow(trace), graph, replay).run();
}

void visit_predicted_ranks(const TraceByRank& trace, const TimedGraph& graph,
                           const TraceReplay& replay,
                           const RankVisitor& visit) {
  Builder(trace, graph, replay).visit_ranks(visit);
}

}  // namespace reprise
