#include "replay/graph/trace_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "data/trace/job_size.h"
#include "data/trace/step_times.h"
#include "replay/graph/evaluate.h"
#include "replay/graph/trace_graph_draft.h"

namespace reprise {
namespace {

void find_ranks(GraphDraft& draft) {
  const Trace& trace = draft.trace;
  for (uint32_t place = 0; place < trace.ranks.size(); ++place) {
    draft.clocks.emplace_back(trace.ranks[place]);
    draft.places.emplace_back(trace.ranks[place].rank, place);
    draft.ranks.emplace_back().timed = is_timed(trace.ranks[place]);
  }
  std::sort(draft.places.begin(), draft.places.end());
  for (uint32_t stream = 0; stream < trace.streams.size(); ++stream) {
    const uint32_t place = draft.place_of(trace.streams[stream].rank);
    draft.rank_place.push_back(place);
    draft.stream_slot.push_back(0);
    if (place == kNoNode) continue;
    RankDraft& rank = draft.ranks[place];
    draft.stream_slot.back() =
        static_cast<uint32_t>(rank.recorded_streams.size());
    rank.recorded_streams.push_back(stream);
  }
}

// Half a step, or half the record where there are no steps: of the window's
// step, or the shortest one, here …
void find_widest_ranges(GraphDraft& draft) {
  for (const StepMark& mark : draft.trace.steps) {
    const uint32_t place = draft.place_of(mark.rank);
    if (place == kNoNode) continue;
    if (!draft.window.all() && mark.step != draft.window.step) continue;
    int64_t& widest_ns = draft.ranks[place].widest_range_ns;
    widest_ns = std::min(widest_ns, within(mark.end_ns, kLatest) / 2 -
                                        within(mark.start_ns, kLatest) / 2);
  }
}

// … and of the record of the rank at work.
void narrow_widest_range(GraphDraft& draft) {
  int64_t first_ns = kLatest, last_ns = -kLatest;
  for (uint32_t index = draft.first; index < draft.last; ++index) {
    const Event& event = draft.trace.events[index];
    first_ns = std::min(first_ns, within(event.start_ns, kLatest));
    last_ns = std::max(last_ns, within(event.end_ns, kLatest));
  }
  int64_t& widest_ns = draft.ranks[draft.place].widest_range_ns;
  widest_ns = std::min(widest_ns, last_ns / 2 - first_ns / 2);
}

// The rank's events stream by stream; they are sorted by start.
void sort_into_streams(GraphDraft& draft) {
  const auto slot_of = [&](uint32_t index) {
    return draft.stream_slot[draft.trace.events[index].stream];
  };
  std::vector<uint32_t>& first = draft.stream_first;
  first.assign(draft.ranks[draft.place].recorded_streams.size() + 1, 0);
  for (uint32_t index = draft.first; index < draft.last; ++index) {
    ++first[slot_of(index) + 1];
  }
  std::partial_sum(first.begin(), first.end(), first.begin());
  draft.by_stream.resize(draft.last - draft.first);
  std::vector<uint32_t> next(first.begin(), first.end() - 1);
  for (uint32_t index = draft.first; index < draft.last; ++index) {
    draft.by_stream[next[slot_of(index)]++] = index;
  }
}

tl::unexpected<Error> no_such_step(const GraphDraft& draft) {
  const std::vector<StepMark>& steps = draft.trace.steps;
  if (steps.empty()) {
    return fail(ErrorKind::kInvalid, "step {}: the trace marks no steps",
                draft.window.step);
  }
  const auto [first, last] = std::minmax_element(
      steps.begin(), steps.end(),
      [](const StepMark& a, const StepMark& b) { return a.step < b.step; });
  return fail(ErrorKind::kInvalid, "step {}: the trace has steps {} to {}",
              draft.window.step, first->step, last->step);
}

// The window of each rank, and the steps in it.
Status find_windows(GraphDraft& draft) {
  for (const StepMark& mark : draft.trace.steps) {
    const uint32_t place = draft.place_of(mark.rank);
    if (place == kNoNode) continue;
    if (!draft.window.all() && mark.step != draft.window.step) continue;
    draft.steps.push_back({place, mark.step, draft.at(place, mark.start_ns),
                           draft.at(place, mark.end_ns), mark.warmup});
  }
  std::sort(
      draft.steps.begin(), draft.steps.end(), [](const auto& a, const auto& b) {
        return std::pair(a.rank, a.start_ns) < std::pair(b.rank, b.start_ns);
      });
  if (draft.window.all()) return {};
  if (draft.steps.empty()) {
    return no_such_step(draft);
  }
  for (RankDraft& rank : draft.ranks) rank.start_ns = rank.end_ns = kLatest;
  for (const TimedGraph::Span& step : draft.steps) {
    draft.ranks[step.rank].start_ns = step.start_ns;
    draft.ranks[step.rank].end_ns = step.end_ns;
  }
  return {};
}

enum class RowKind { kHost, kDevice, kFlat };

RowKind row_of(const GraphDraft& draft, uint32_t stream) {
  if (!draft.ranks[draft.rank_place[stream]].timed) return RowKind::kFlat;
  const StreamKind kind = draft.trace.streams[stream].kind;
  if (kind == StreamKind::kDeviceStream) return RowKind::kDevice;
  if (kind == StreamKind::kHostThread || draft.trace.dependencies.empty()) {
    return RowKind::kHost;
  }
  for (const uint32_t index : draft.events_of(stream)) {
    if (draft.trace.events[index].external_id >= 0) return RowKind::kFlat;
  }
  return RowKind::kHost;
}

void add_nodes(GraphDraft& draft) {
  std::vector<uint32_t> device;
  RankDraft& rank = draft.ranks[draft.place];
  if (rank.timed)
    rank.operator_waits = operator_waits(draft.trace, draft.first, draft.last);
  for (const uint32_t stream : rank.recorded_streams) {
    switch (row_of(draft, stream)) {
      case RowKind::kHost:
        add_host_thread(draft, stream);
        break;
      case RowKind::kDevice:
        device.push_back(stream);
        break;
      case RowKind::kFlat:
        add_flat_stream(draft, stream);
        break;
    }
  }
  for (const uint32_t stream : device) add_device_stream(draft, stream);
}

// A host node belongs to the step in which it starts, but for what a thread
// beside it works on beyond its end, and a collective up to that end; device
// work to that of its launch.
void find_steps(GraphDraft& draft) {
  for (DraftNode& node : draft.nodes) {
    if (node.under_way) {
      node.step = TimedGraph::kUnderWay;
      continue;
    }
    const int64_t time_ns = node.handed_ns.value_or(node.start_ns);
    const auto after = std::upper_bound(
        draft.steps.begin(), draft.steps.end(), std::pair(node.rank, time_ns),
        [](const auto& key, const TimedGraph::Span& step) {
          return key < std::pair(step.rank, step.start_ns);
        });
    if (after == draft.steps.begin()) continue;
    const TimedGraph::Span& step = *std::prev(after);
    if (step.rank != node.rank || time_ns > step.end_ns) continue;
    const int64_t beyond_ns = node.end_ns - step.end_ns;
    const bool beyond = !node.handed_ns && beyond_ns > kClockTolerance;
    if (beyond && node.collective < 0) continue;
    if (beyond) node.beyond_ns = beyond_ns;
    node.step = static_cast<int32_t>(std::prev(after) - draft.steps.begin());
  }
}

// Recorded times contradict an edge that allows its node's start only later:
// by a little, and the clocks were wrong; by more, and the edge is, unless it
// was recorded.
void fit_edges(GraphDraft& draft) {
  size_t kept = 0;
  for (DraftEdge edge : draft.edges) {
    const int64_t late_ns =
        allows_ns(draft, edge) - draft.nodes[edge.to].start_ns;
    if (late_ns > 0) {
      const bool trusted = edge.kind <= EdgeKind::kDependency;
      if (!trusted && late_ns > kClockTolerance) {
        ++draft.tally.contradicted;
        continue;
      }
      edge.delay_ns -= late_ns;
    }
    edge.delay_ns = within(edge.delay_ns, kLongest);
    draft.edges[kept++] = edge;
  }
  draft.edges.resize(kept);
}

TimedGraph::Span rank_span(const GraphDraft& draft) {
  TimedGraph::Span span = {draft.place,
                           draft.window.all() ? 0 : draft.window.step, kLatest,
                           -kLatest};
  bool marked = false;
  int64_t first_mark_ns = kLatest;
  for (const TimedGraph::Span& step : draft.steps) {
    if (step.rank != draft.place) continue;
    marked = !draft.window.all();
    first_mark_ns = std::min(first_mark_ns, step.start_ns);
  }
  for (const DraftNode& node : draft.nodes) {
    span.start_ns = std::min(span.start_ns, node.start_ns);
    if (marked && node.step == -1) continue;
    span.end_ns =
        std::max(span.end_ns, node.end_ns - (marked ? node.beyond_ns : 0));
  }
  if (span.end_ns >= span.start_ns)
    span.start_ns = std::min(span.start_ns, first_mark_ns);
  return span;
}

// A row's nodes follow each other in order of the earliest start that
// dependencies allow; of a meeting, when all its members have come, so that no
// two rows hold each other up. Returns how many cycles of dependencies were
// opened.
int64_t schedule_untimed(GraphDraft& draft, LooseGraph& loose,
                         const Meetings& meetings,
                         const std::vector<TimedGraph::Span>& ranks) {
  std::vector<uint32_t> places;
  const TimedGraph free = pack_graph(draft, loose, meetings, ranks, places);
  const GraphTimes times = evaluate(free);
  const auto turn = [&](uint32_t node) {
    const uint32_t place = places[node];
    return std::pair(times.end_ns[place] - free.duration[place], place);
  };
  std::vector<DraftEdge> order;
  for (const RankDraft& rank : draft.ranks) {
    for (const StreamNodes& row : rank.flat) {
      std::vector<uint32_t> nodes;
      for (uint32_t node = row.first; node < row.last; ++node) {
        nodes.push_back(node);
      }
      std::sort(nodes.begin(), nodes.end(),
                [&](uint32_t a, uint32_t b) { return turn(a) < turn(b); });
      for (size_t at = 1; at < nodes.size(); ++at) {
        order.push_back({0, nodes[at - 1], nodes[at], EdgeKind::kStream});
      }
    }
  }
  loose.add_edges(order);
  return free.cycles_repaired;
}

// Ranks without times cannot be set beside ranks with them.
void drop_untimed_beside_timed(GraphDraft& draft) {
  const bool any_timed =
      std::any_of(draft.ranks.begin(), draft.ranks.end(),
                  [](const RankDraft& rank) { return rank.timed; });
  if (!any_timed) return;
  for (RankDraft& rank : draft.ranks) {
    if (rank.timed || rank.recorded_streams.empty()) continue;
    ++draft.tally.untimed_ranks;
    rank.recorded_streams.clear();
  }
}

// The edges within the rank at work.
void add_edges(GraphDraft& draft) {
  add_dependencies(draft);
  add_handoffs(draft, draft.place);
  add_device_order(draft, draft.place);
  add_host_waits(draft, draft.place);
  add_step_waits(draft, draft.place);
  if (!add_stream_waits(draft, draft.place))
    add_producer_waits(draft, draft.place);
  order_free_nodes(draft);
}

Status check_content(const GraphDraft& draft, const LooseGraph& loose) {
  if (loose.size() == 0) {
    return fail(ErrorKind::kInvalid,
                "the trace{} holds no device or host work to replay",
                draft.window.all()
                    ? std::string()
                    : fmt::format("'s step {}", draft.window.step));
  }
  if (loose.lasting) return {};
  return fail(ErrorKind::kInvalid,
              "the trace has neither times nor durations; join it with a timed "
              "trace of the same run");
}

// Starts of untimed ranks stand for nothing.
void forget_untimed_starts(GraphDraft& draft) {
  if (draft.ranks[draft.place].timed) return;
  for (DraftNode& node : draft.nodes) {
    node.end_ns -= node.start_ns;
    node.start_ns = 0;
  }
}

// Turns to the next rank: its events, and nothing found of them yet.
void begin_rank(GraphDraft& draft, uint32_t place) {
  const bool used = !draft.ranks[place].recorded_streams.empty();
  const uint32_t number = draft.trace.ranks[place].rank;
  const RankEvents events =
      used ? draft.by_rank.of_rank(number) : RankEvents{draft.trace, number};
  draft.place = place;
  draft.base = events.base;
  draft.first = events.first;
  draft.last = events.last;
  for (auto* column : {&draft.launch_of, &draft.child_of, &draft.first_node,
                       &draft.last_node}) {
    column->assign(events, kNoNode);
  }
  draft.time.assign(events, {});
  for (uint32_t event = events.first; event < events.last; ++event) {
    const Event& recorded = draft.trace.events[event];
    draft.time[event] = {draft.at(place, recorded.start_ns),
                         draft.at(place, recorded.end_ns)};
  }
  draft.nodes.clear();
  draft.edges.clear();
}

// When the rank at work turns to its window: when what was under way is done.
int64_t busy_until_ns(const GraphDraft& draft) {
  int64_t until_ns = draft.ranks[draft.place].start_ns;
  for (const DraftNode& node : draft.nodes) {
    if (node.under_way) until_ns = std::max(until_ns, node.end_ns);
  }
  return until_ns;
}

// Everything that the rank adds; returns its span.
TimedGraph::Span add_rank_at_work(GraphDraft& draft, LooseGraph& loose) {
  sort_into_streams(draft);
  narrow_widest_range(draft);
  find_launches(draft);
  draft.ranks[draft.place].marked_by_device = marked_by_device(draft);
  add_nodes(draft);
  for (const DraftNode& node : draft.nodes) {
    loose.lasting |= node.end_ns > node.start_ns;
  }
  find_steps(draft);
  add_edges(draft);
  TimedGraph::Span span = {.rank = draft.place};
  if (loose.timed) {
    fit_edges(draft);
    span = rank_span(draft);
    if (!draft.window.all()) span.busy_until_ns = busy_until_ns(draft);
    // What the edges so far leave open may be waits that nothing recorded.
    add_coincident_waits(draft, draft.place, ready_times(draft, span));
  } else {
    forget_untimed_starts(draft);
  }
  loose.add_rank(draft);
  return span;
}

TimedGraph finish_graph(GraphDraft& draft, LooseGraph& loose,
                        std::vector<TimedGraph::Span> ranks) {
  const bool timed = loose.timed;
  if (!timed) {
    take_untimed_waits_out(draft, loose);
    loose.add_edges(messages(draft, loose));
  }
  const Meetings meetings = find_meetings(draft, loose);
  const int64_t repaired =
      timed ? 0 : schedule_untimed(draft, loose, meetings, ranks);
  std::vector<uint32_t> places;
  TimedGraph graph =
      pack_graph(draft, loose, meetings, std::move(ranks), places, true);
  graph.cycles_repaired += repaired;
  graph.timed = timed;
  graph.job_ranks = std::max(job_size(draft.trace), draft.trace.ranks.size());
  if (!draft.window.all())
    graph.before_ns = end_before_ns(draft.trace, draft.window.step);
  graph.notes = notes_of(draft.tally, graph.cycles_repaired);
  price_transfers(draft.matching, keeps_to_rings(draft.trace), graph);
  return graph;
}

}  // namespace

std::string_view name_of(EdgeKind kind) {
  constexpr std::array<std::string_view, kEdgeKinds> kNames = {
      "thread",          "launch", "dependency", "event",
      "synchronization", "stream", "handoff",    "inferred"};
  return kNames[static_cast<size_t>(kind)];
}

struct TraceGraphBuilder::State {
  GraphDraft draft;
  Status windows;
  LooseGraph loose = {};
  std::vector<TimedGraph::Span> ranks = {};
};

TraceGraphBuilder::TraceGraphBuilder(const AlignedTrace& recorded,
                                     const TraceWindow& window)
    : state_(new State{GraphDraft(recorded, window), {}}) {
  GraphDraft& draft = state_->draft;
  find_ranks(draft);
  state_->windows = find_windows(draft);
  find_widest_ranges(draft);
  draft.call_of = classify_calls(draft.trace);
  drop_untimed_beside_timed(draft);
  LooseGraph& loose = state_->loose;
  loose.timed = draft.tally.untimed_ranks > 0 ||
                (!draft.ranks.empty() && draft.ranks[0].timed);
  loose.member_node.assign(draft.matching.of_event.size(), kNoNode);
}

TraceGraphBuilder::~TraceGraphBuilder() = default;

void TraceGraphBuilder::add_rank() {
  if (!state_->windows) return;
  auto& [draft, windows, loose, ranks] = *state_;
  const auto place = static_cast<uint32_t>(ranks.size());
  begin_rank(draft, place);
  ranks.push_back(add_rank_at_work(draft, loose));
  draft.ranks[place].forget_events(loose.rank_first[place]);
}

Result<TimedGraph> TraceGraphBuilder::finish() && {
  auto& [draft, windows, loose, ranks] = *state_;
  if (!windows) return pass(windows.error());
  loose.rank_first.push_back(static_cast<uint32_t>(loose.size()));
  draft.forget_rank();
  const Status content = check_content(draft, loose);
  if (!content) return pass(content.error());
  return finish_graph(draft, loose, std::move(ranks));
}

Result<TimedGraph> build_trace_graph(const AlignedTrace& recorded,
                                     const TraceWindow& window) {
  TraceGraphBuilder builder(recorded, window);
  for (size_t i = 0; i < recorded.frame().ranks.size(); ++i) builder.add_rank();
  return std::move(builder).finish();
}

}  // namespace reprise
