// The last steps of building a graph: who meets whom, recorded times turned
// into durations and gaps, and everything packed in topological order.
#include <algorithm>

#include "replay/graph/trace_graph_draft.h"
#include "replay/graph/trace_graph_order.h"

namespace reprise {
namespace {

// Clocks that are known no better than this tell nothing about waiting.
constexpr int64_t kWorstResidual = 1'000'000;

// The members of a collective that are here, one a rank, by number.
std::vector<uint32_t> members_here(const GraphDraft& draft,
                                   const MatchedCollective& collective) {
  std::vector<uint32_t> members;
  for (const CollectiveMember& member : collective.members) {
    const uint32_t node = draft.first_node[member.event];
    if (node == kNoNode || draft.nodes[node].cut) continue;
    const bool again =
        std::any_of(members.begin(), members.end(), [&](uint32_t other) {
          return draft.nodes[other].rank == draft.nodes[node].rank;
        });
    if (!again) members.push_back(node);
  }
  return members;
}

// Without times, nothing says that a send waited for its receiver.
bool is_untimed_message(const GraphDraft& draft,
                        const MatchedCollective& collective,
                        const std::vector<uint32_t>& members) {
  return collective.sender >= 0 && members.size() == 2 &&
         !draft.ranks[draft.nodes[members[0]].rank].timed;
}

class Packer {
 public:
  Packer(GraphDraft& draft, const Meetings& meetings,
         std::vector<TimedGraph::Span> ranks)
      : draft_(draft), meetings_(meetings) {
    graph_.ranks = std::move(ranks);
  }

  /// All but the edges.
  TimedGraph run() {
    const NodeOrder order = order_nodes(draft_.nodes, meetings_, draft_.edges);
    graph_.cycles_repaired = order.dropped;
    ready_ns_ = ready_times(draft_, graph_.ranks);
    place_.resize(draft_.nodes.size());
    reserve(order.order.size());
    for (const uint32_t node : order.order) {
      place_[node] = static_cast<uint32_t>(graph_.origin.size());
      add(node);
    }
    add_steps();
    ready_ns_ = {};
    return std::move(graph_);
  }

  /// The rest of the graph: needs the draft's edges alone.
  void add_edges(TimedGraph& graph) const {
    graph.first.assign(graph.size() + 1, 0);
    for (const DraftEdge& edge : draft_.edges) {
      ++graph.first[place_[edge.to] + 1];
    }
    for (size_t node = 0; node < graph.size(); ++node) {
      graph.first[node + 1] += graph.first[node];
    }
    graph.edges.resize(draft_.edges.size());
    std::vector<uint32_t> next(graph.first.begin(), graph.first.end() - 1);
    for (const DraftEdge& edge : draft_.edges) {
      graph.edges[next[place_[edge.to]]++] = {edge.delay_ns, place_[edge.from],
                                              edge.kind, edge.from_start};
    }
  }

  /// [draft node] its node in the graph. Requires: run.
  const std::vector<uint32_t>& places() const { return place_; }

 private:
  void reserve(size_t count) {
    graph_.origin.reserve(count);
    graph_.rank.reserve(count);
    graph_.step.reserve(count);
    graph_.duration.reserve(count);
    graph_.gap.reserve(count);
    graph_.named.reserve(count);
    graph_.range.reserve(count);
    graph_.collective.reserve(count);
    graph_.meeting.reserve(count);
    graph_.waits.reserve(count);
  }

  void add(uint32_t index) {
    const DraftNode& node = draft_.nodes[index];
    int64_t duration_ns = node.end_ns - node.start_ns;
    const uint32_t meeting = meetings_.of_node[index];
    bool waits = false;
    uint32_t meets = 1;
    if (meeting != kNoNode) {
      const std::vector<uint32_t>& members = meetings_.members[meeting];
      meets =
          index == members.front() ? static_cast<uint32_t>(members.size()) : 0;
      waits = wait_for_others(node, members, duration_ns);
    }
    graph_.origin.push_back(node.event);
    graph_.rank.push_back(node.rank);
    graph_.step.push_back(node.step);
    graph_.duration.push_back(within(duration_ns, kLongest));
    const int64_t gap_ns = node.start_ns - ready_ns_[index];
    const bool timed = draft_.ranks[node.rank].timed;
    graph_.gap.push_back(timed ? std::clamp<int64_t>(gap_ns, 0, kLongest) : 0);
    graph_.named.push_back(std::min(node.named_ns, graph_.gap.back()));
    graph_.range.push_back(node.range);
    graph_.collective.push_back(node.collective);
    graph_.meeting.push_back(meets);
    graph_.waits.push_back(waits ? 1 : 0);
  }

  // Takes the wait out of a member's duration, if it waited to the end.
  bool wait_for_others(const DraftNode& node,
                       const std::vector<uint32_t>& members,
                       int64_t& duration_ns) {
    if (!draft_.ranks[node.rank].timed) return true;
    int64_t arrival_ns = node.start_ns, tolerance_ns = kClockTolerance;
    for (const uint32_t member : members) {
      const DraftNode& other = draft_.nodes[member];
      if (other.start_ns <= arrival_ns) continue;
      arrival_ns = other.start_ns;
      tolerance_ns = kClockTolerance +
                     within(draft_.trace.ranks[node.rank].clock_residual_ns,
                            kWorstResidual) +
                     within(draft_.trace.ranks[other.rank].clock_residual_ns,
                            kWorstResidual);
    }
    if (node.end_ns < arrival_ns - tolerance_ns) {
      ++draft_.tally.early_leavers;
      return false;
    }
    duration_ns = std::max<int64_t>(0, node.end_ns - arrival_ns);
    return true;
  }

  // A step's end: that of its last node.
  void add_steps() {
    graph_.steps = draft_.steps;
    for (const DraftNode& node : draft_.nodes) {
      if (node.step < 0) continue;
      TimedGraph::Span& step = graph_.steps[static_cast<size_t>(node.step)];
      step.end_ns = std::max(step.end_ns, node.end_ns);
    }
  }

  GraphDraft& draft_;
  const Meetings& meetings_;
  TimedGraph graph_;
  std::vector<int64_t> ready_ns_;
  std::vector<uint32_t> place_;
};

}  // namespace

int64_t allows_ns(const GraphDraft& draft, const DraftEdge& edge) {
  const DraftNode& from = draft.nodes[edge.from];
  return (edge.from_start ? from.start_ns : from.end_ns) + edge.delay_ns;
}

std::vector<int64_t> ready_times(const GraphDraft& draft,
                                 const std::vector<TimedGraph::Span>& ranks) {
  std::vector<int64_t> ready_ns;
  ready_ns.reserve(draft.nodes.size());
  for (const DraftNode& node : draft.nodes) {
    ready_ns.push_back(ranks[node.rank].start_ns);
  }
  for (const DraftEdge& edge : draft.edges) {
    ready_ns[edge.to] = std::max(ready_ns[edge.to], allows_ns(draft, edge));
  }
  return ready_ns;
}

void add_messages(GraphDraft& draft) {
  for (const MatchedCollective& collective : draft.matching.collectives) {
    const std::vector<uint32_t> members = members_here(draft, collective);
    if (!is_untimed_message(draft, collective, members)) continue;
    const auto sends = [&](uint32_t node) {
      return draft.trace.ranks[draft.nodes[node].rank].rank ==
             static_cast<uint32_t>(collective.sender);
    };
    const bool first = sends(members[0]);
    if (first == sends(members[1])) continue;
    draft.add_edge(members[first ? 0 : 1], members[first ? 1 : 0],
                   EdgeKind::kDependency, 0, true);
  }
}

Meetings find_meetings(const GraphDraft& draft) {
  Meetings meetings;
  meetings.of_node.assign(draft.nodes.size(), kNoNode);
  for (const MatchedCollective& collective : draft.matching.collectives) {
    if (collective.members.size() < 2) continue;
    std::vector<uint32_t> members = members_here(draft, collective);
    if (is_untimed_message(draft, collective, members)) continue;
    const bool taken = std::any_of(
        members.begin(), members.end(),
        [&](uint32_t node) { return meetings.of_node[node] != kNoNode; });
    if (members.size() < 2 || taken) continue;
    std::sort(members.begin(), members.end());
    for (const uint32_t node : members) {
      meetings.of_node[node] = static_cast<uint32_t>(meetings.members.size());
    }
    meetings.members.push_back(std::move(members));
  }
  return meetings;
}

TimedGraph pack_graph(GraphDraft& draft, const Meetings& meetings,
                      std::vector<TimedGraph::Span> ranks,
                      std::vector<uint32_t>& places, bool last) {
  Packer packer(draft, meetings, std::move(ranks));
  TimedGraph graph = packer.run();
  if (last) draft.nodes = {};
  packer.add_edges(graph);
  places = packer.places();
  return graph;
}

}  // namespace reprise
