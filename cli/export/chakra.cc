// chakra: the recorded step as MLCommons Chakra's execution traces, a file a
// rank, for simulators (ASTRA-sim) and replayers. Nodes are those of the graph
// that is replayed: device work, and host ops as the stretches between their
// children. Time that passes before a node without any op is a node of its own,
// as Chakra has no delays; so durations and dependencies alone replay the step.
#include <fmt/format.h>

#include <algorithm>

#include "cli/export/chakra_nodes.h"
#include "cli/export/export_target.h"
#include "data/number_text.h"
#include "replay/graph/evaluate.h"
#include "replay/graph/trace_graph.h"
#include "replay/simulate/trace_replay.h"

namespace reprise {
namespace {

class RecordedNodes {
 public:
  RecordedNodes(const AlignedTrace& trace, const TimedGraph& graph)
      : trace_(trace), graph_(graph), times_(evaluate(graph)) {}

  /// Start of the earliest node or the gap before it.
  int64_t first_ns() const {
    int64_t first_ns = graph_.size() > 0 ? ready_ns(0) : 0;
    for (uint32_t node = 0; node < graph_.size(); ++node) {
      first_ns = std::min(first_ns, ready_ns(node));
    }
    return first_ns;
  }
  int64_t step_ns() const { return replayed_span_ns(graph_, times_); }

  void add_rank(uint32_t place, ChakraFiles& files) const {
    const RankInfo& info = trace_.frame().ranks[place];
    files.open_rank(info.rank, info.process);
    const RankEvents events = trace_.by_rank().of_rank(info.rank);
    for (uint32_t node = 0; node < graph_.size(); ++node) {
      if (graph_.ranks[graph_.rank[node]].rank != place) continue;
      files.add(
          node_of(node, events.trace.events[graph_.origin[node] - events.base]),
          ready_ns(node), graph_.size() + id_of(node));
    }
  }

 private:
  static uint64_t id_of(uint32_t node) { return uint64_t{node} + 1; }

  int64_t ready_ns(uint32_t node) const {
    return times_.start_ns[node] - std::max<int64_t>(0, graph_.gap[node]);
  }

  /// Causes on the same rank; those on other ranks are met in collectives and
  /// messages.
  void add_causes(uint32_t node, ExportedNode& out) const {
    for (uint32_t at = graph_.first[node]; at < graph_.first[node + 1]; ++at) {
      const TimedGraph::Edge edge = graph_.edges[at];
      if (graph_.rank[edge.from] != graph_.rank[node]) continue;
      out.causes.push_back(id_of(edge.from));
    }
  }

  ExportedNode node_of(uint32_t node, const Event& event) const {
    const Trace& frame = trace_.frame();
    const StreamInfo& stream = frame.streams[event.stream];
    ExportedNode out{.id = id_of(node),
                     .name = std::string(frame.text(event.name)),
                     .start_ns = times_.start_ns[node],
                     .end_ns = times_.end_ns[node],
                     .on_host = stream.kind == StreamKind::kHostThread,
                     .lane = stream.number};
    add_causes(node, out);
    if (graph_.collective[node] >= 0 && event.kind == EventKind::kCollective) {
      out.transfer = transfer_of(node, event);
    }
    return out;
  }

  ExportedTransfer transfer_of(uint32_t node, const Event& event) const {
    const MatchedCollective& matched =
        trace_.matching()
            .collectives[static_cast<size_t>(graph_.collective[node])];
    ExportedTransfer told{
        .kind = matched.kind,
        .bytes = event.bytes > 0 ? event.bytes : matched.bytes,
        .group = matched.group};
    if (event.detail < 0) return told;
    const CollectiveInfo& info =
        trace_.frame().collectives[static_cast<size_t>(event.detail)];
    if (!is_message(info.kind)) return told;
    told.kind = info.kind;
    if (info.peer < 0) return told;
    const bool sends = info.kind == CollectiveKind::kSend;
    told.from = sends ? event.rank : info.peer;
    told.to = sends ? info.peer : event.rank;
    return told;
  }

  const AlignedTrace& trace_;
  const TimedGraph& graph_;
  GraphTimes times_;
};

}  // namespace

Result<Artefact> make_chakra(const ExportRequest& request) {
  if (request.planned) return make_planned_chakra(request);
  const Result<AlignedTrace> trace = AlignedTrace::read(request.file);
  if (!trace) return pass(trace.error());
  TraceWindow window;
  if (request.step) window.step = *request.step;
  const Result<TimedGraph> graph = build_trace_graph(*trace, window);
  if (!graph) return pass(graph.error(), request.path);
  const RecordedNodes step(*trace, *graph);
  ChakraFiles files(
      {.source = fmt::format("{}, {} ranks", request.path,
                             trace->frame().ranks.size()),
       .predicted = fmt::format(
           "nothing changed: the recorded work, which replays in {}.",
           time_text(step.step_ns())),
       .trust =
           "durations are recorded and rounded to microseconds, waits for "
           "other ranks included in collectives' (simulators take comm_size "
           "instead); delays that nothing recorded explains are nodes called "
           "gap.",
       .check = "`reprise import` of these files and `reprise replay` give the "
                "same time; ASTRA-sim prints each rank's cycles."},
      step.first_ns());
  for (uint32_t place = 0; place < trace->frame().ranks.size(); ++place) {
    step.add_rank(place, files);
  }
  return std::move(files).artefact();
}

}  // namespace reprise
