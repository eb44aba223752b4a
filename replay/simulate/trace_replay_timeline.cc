#include "replay/simulate/trace_replay_timeline.h"

#include <algorithm>
#include <utility>

#include "data/integers.h"
#include "data/trace/event_order.h"
#include "data/trace/intervals.h"
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
  Builder(const Trace& trace, const TimedGraph& graph,
          const TraceReplay& replay)
      : trace_(trace), graph_(graph), replay_(replay) {
    for (const RankInfo& rank : trace.ranks) clocks_.emplace_back(rank);
  }

  ReplayTimeline run() {
    copy_frame(timeline_.recorded);
    copy_frame(timeline_.predicted);
    find_nodes();
    for (uint32_t event = 0; event < trace_.events.size(); ++event) {
      place(event);
    }
    timeline_.recorded_place.assign(trace_.events.size(),
                                    ReplayTimeline::kNoEvent);
    timeline_.predicted_place = timeline_.recorded_place;
    if (graph_.timed) {
      sort(timeline_.recorded, timeline_.recorded_place);
    } else {
      timeline_.recorded.events.clear();
    }
    sort(timeline_.predicted, timeline_.predicted_place);
    add_steps();
    return std::move(timeline_);
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

  // First and last node of each event, and the anchors of host threads.
  void find_nodes() {
    first_.assign(trace_.events.size(), kNone);
    last_ = first_;
    threads_.resize(trace_.streams.size());
    rank_of_stream_.assign(trace_.streams.size(), kNone);
    const GraphTimes recorded = evaluate(graph_);
    for (uint32_t node = 0; node < graph_.size(); ++node) {
      const uint32_t event = graph_.origin[node];
      if (first_[event] == kNone) first_[event] = node;
      last_[event] = node;
      const uint32_t stream = trace_.events[event].stream;
      if (trace_.streams[stream].kind != StreamKind::kHostThread) continue;
      rank_of_stream_[stream] = graph_.rank[node];
      threads_[stream].add(recorded.start_ns[node], replay_.start_ns[node]);
      threads_[stream].add(recorded.end_ns[node], replay_.end_ns[node]);
    }
    for (ThreadTimes& thread : threads_) thread.sort();
  }

  void place(uint32_t index) {
    const Event& event = trace_.events[index];
    const ThreadTimes& thread = threads_[event.stream];
    if (!thread.empty() && event.kind != EventKind::kCollective) {
      place_on_thread(index, thread);
      return;
    }
    if (first_[index] == kNone) return;
    const RankClock& clock = clocks_[graph_.rank[first_[index]]];
    add(index, clock.at(event.start_ns), clock.at(event.end_ns),
        replay_.start_ns[first_[index]], replay_.end_ns[last_[index]]);
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
    timeline_.recorded.events.push_back(event);
    event.enqueue_ns = event.start_ns = predicted_start_ns;
    event.end_ns = std::max(predicted_start_ns, predicted_end_ns);
    timeline_.predicted.events.push_back(event);
    added_.push_back(index);
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

  const Trace& trace_;
  const TimedGraph& graph_;
  const TraceReplay& replay_;
  ReplayTimeline timeline_;
  std::vector<RankClock> clocks_;         // [rank place]
  std::vector<uint32_t> first_, last_;    // [event] node
  std::vector<ThreadTimes> threads_;      // [stream]
  std::vector<uint32_t> rank_of_stream_;  // [stream] place
  std::vector<uint32_t> added_;           // Event of each that was added.
};

}  // namespace

ReplayTimeline replay_timeline(const Trace& trace, const TimedGraph& graph,
                               const TraceReplay& replay) {
  return Builder(trace, graph, replay).run();
}

}  // namespace reprise
