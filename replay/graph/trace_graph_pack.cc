// The last steps of building a graph: who meets whom, recorded times turned
// into durations and gaps, and everything packed in topological order.
#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "data/collective/collective.h"
#include "replay/graph/trace_graph_draft.h"
#include "replay/graph/trace_graph_order.h"

namespace reprise {
namespace {

// Clocks that are known no better than this tell nothing about waiting.
constexpr int64_t kWorstResidual = 1'000'000;

// The node of a member, or kNoNode.
uint32_t node_of(const GraphDraft& draft, const LooseGraph& loose,
                 const CollectiveMember& member) {
  const auto& of_event = draft.matching.of_event;
  const auto at =
      std::lower_bound(of_event.begin(), of_event.end(),
                       CollectiveMatching::EventPlace{member.event, 0});
  return loose.member_node[static_cast<size_t>(at - of_event.begin())];
}

// The members of a collective that are here, one a rank, by number.
std::vector<uint32_t> members_here(const GraphDraft& draft,
                                   const LooseGraph& loose,
                                   const MatchedCollective& collective) {
  std::vector<uint32_t> members;
  for (const CollectiveMember& member : collective.members) {
    const uint32_t node = node_of(draft, loose, member);
    if (node != kNoNode) members.push_back(node);
  }
  return members;
}

// Of an exchange: who sends to whom, both ways. Members whose other ends are
// not here stand alone.
std::vector<TimedGraph::Partner> partners_here(
    const GraphDraft& draft, const LooseGraph& loose,
    const MatchedCollective& collective) {
  std::vector<TimedGraph::Partner> partners;
  if (collective.exchange < 0) return partners;
  const std::vector<RankGroup>& senders =
      draft.matching.exchanges[static_cast<size_t>(collective.exchange)];
  std::map<uint32_t, uint32_t> node_of_rank;
  for (const CollectiveMember& member : collective.members)
    node_of_rank[member.rank] = node_of(draft, loose, member);
  for (size_t i = 0; i < senders.size(); ++i) {
    const uint32_t to = node_of_rank[collective.members[i].rank];
    for (const uint32_t rank : senders[i]) {
      const auto from = node_of_rank.find(rank);
      if (from == node_of_rank.end() || from->second == kNoNode ||
          to == kNoNode || from->second == to)
        continue;
      partners.push_back({to, from->second});
      partners.push_back({from->second, to});
    }
  }
  std::sort(partners.begin(), partners.end());
  partners.erase(std::unique(partners.begin(), partners.end()), partners.end());
  return partners;
}

// Without times, nothing says that a send waited for its receiver.
bool is_untimed_message(const GraphDraft& draft, const LooseGraph& loose,
                        const MatchedCollective& collective,
                        const std::vector<uint32_t>& members) {
  return collective.sender >= 0 && members.size() == 2 &&
         !draft.ranks[loose.place_of_rank(members[0])].timed;
}

// A column of the graph from one of the loose nodes, which is `done` with.
template <typename From, typename To>
void move_column(From& from, const std::vector<uint32_t>& places, bool done,
                 To& to) {
  to.resize(places.size());
  for (size_t node = 0; node < places.size(); ++node) {
    to[places[node]] = from[node];
  }
  if (done) release(from);
}

class Packer {
 public:
  Packer(GraphDraft& draft, LooseGraph& loose, const Meetings& meetings,
         std::vector<TimedGraph::Span> ranks, bool last)
      : draft_(draft), loose_(loose), meetings_(meetings), last_(last) {
    graph_.ranks = std::move(ranks);
  }

  TimedGraph run() {
    place_nodes();
    // First what needs recorded times, so that these can go.
    add_gaps();
    add_durations();
    add_steps();
    if (last_) {
      release(loose_.start_ns);
      release(loose_.lasts);
    }
    add_ranks();
    add_members();
    move_column(loose_.event, places_, last_, graph_.origin);
    move_column(loose_.range, places_, last_, graph_.range);
    add_edges();
    return std::move(graph_);
  }

  /// [loose node] its node in the graph. Requires: run.
  std::vector<uint32_t> places() && { return std::move(places_); }

 private:
  void place_nodes() {
    NodeOrder order = order_nodes(loose_, meetings_);
    graph_.cycles_repaired = order.dropped;
    places_.resize(order.order.size());
    for (uint32_t at = 0; at < places_.size(); ++at) {
      places_[order.order[at]] = at;
    }
  }

  // Where there are times, what remains between a node's last edge and its
  // recorded start. Edges then stay on their rank.
  void add_gaps() {
    graph_.gap.resize(places_.size());
    graph_.named.resize(places_.size());
    for (uint32_t rank = 0; rank < graph_.ranks.size(); ++rank) {
      if (!draft_.ranks[rank].timed) continue;
      add_gaps(rank, loose_.rank_first[rank], loose_.rank_first[rank + 1]);
    }
    share_gaps();
    if (last_) release(loose_.named);
  }

  // Where dependencies alone order what was recorded, both sides of a message
  // may have the times of its transfer, which do not say when either had come:
  // what is left unexplained is what the later one leaves.
  void share_gaps() {
    std::vector<bool> flat;
    for (const RankDraft& rank : draft_.ranks) {
      for (const StreamNodes& row : rank.flat) {
        flat.resize(std::max<size_t>(flat.size(), row.last));
        std::fill(flat.begin() + row.first, flat.begin() + row.last, true);
      }
    }
    if (flat.empty()) return;
    for (const std::vector<uint32_t>& members : meetings_.members) {
      const int64_t start_ns = loose_.start_ns[members.front()];
      int64_t least_ns = kLongest;
      for (const uint32_t node : members) {
        const bool alike = node < flat.size() && flat[node] &&
                           loose_.start_ns[node] == start_ns && is_timed(node);
        least_ns =
            alike ? std::min<int64_t>(least_ns, graph_.gap[places_[node]]) : -1;
        if (!alike) break;
      }
      if (least_ns < 0) continue;
      for (const uint32_t node : members) {
        graph_.gap[places_[node]] = least_ns;
        graph_.named[places_[node]] =
            std::min<int64_t>(graph_.named[places_[node]], least_ns);
      }
    }
  }

  void add_gaps(uint32_t rank, uint32_t first, uint32_t end) {
    std::vector<int64_t> ready_ns(end - first, graph_.ranks[rank].start_ns);
    for (uint32_t node = first; node < end; ++node) {
      for (uint32_t edge = loose_.first_out[node];
           edge < loose_.first_out[node + 1]; ++edge) {
        int64_t& ready = ready_ns[loose_.to[edge] - first];
        ready = std::max(ready, loose_.allows_ns(node, edge));
      }
    }
    for (uint32_t node = first; node < end; ++node) {
      const int64_t gap_ns = std::clamp<int64_t>(
          loose_.start_ns[node] - ready_ns[node - first], 0, kLongest);
      graph_.gap[places_[node]] = gap_ns;
      graph_.named[places_[node]] =
          std::min<int64_t>(loose_.named[node], gap_ns);
    }
  }

  void add_durations() {
    graph_.duration.resize(places_.size());
    for (uint32_t node = 0; node < places_.size(); ++node) {
      graph_.duration[places_[node]] = within(loose_.lasts[node], kLongest);
    }
    graph_.waits.assign(places_.size(), 0);
    for (const std::vector<uint32_t>& members : meetings_.members) {
      for (const uint32_t node : members) {
        const std::vector<uint32_t> awaited = awaited_by(node, members);
        graph_.waits[places_[node]] = wait_for_others(node, awaited) ? 1 : 0;
      }
    }
    std::sort(graph_.partners.begin(), graph_.partners.end());
  }

  void add_ranks() {
    graph_.rank.resize(places_.size());
    for (uint32_t rank = 0; rank < graph_.ranks.size(); ++rank) {
      for (uint32_t node = loose_.rank_first[rank];
           node < loose_.rank_first[rank + 1]; ++node) {
        graph_.rank[places_[node]] = rank;
      }
    }
  }

  void add_members() {
    graph_.collective.assign(places_.size(), -1);
    for (const auto& [node, collective] : loose_.collectives) {
      graph_.collective[places_[node]] = static_cast<int32_t>(collective);
    }
    graph_.meeting.assign(places_.size(), 1);
    for (const std::vector<uint32_t>& members : meetings_.members) {
      for (const uint32_t node : members) graph_.meeting[places_[node]] = 0;
      graph_.meeting[places_[members.front()]] =
          static_cast<uint32_t>(members.size());
    }
  }

  // All that a member waits for; of a kernel's messages only the ends of those
  // that came while it ran: what it sends may be buffered.
  std::vector<uint32_t> awaited_by(uint32_t node,
                                   const std::vector<uint32_t>& members) {
    auto partner =
        std::lower_bound(meetings_.partners.begin(), meetings_.partners.end(),
                         TimedGraph::Partner{.node = node});
    if (partner == meetings_.partners.end() || partner->node != node)
      return members;
    std::vector<uint32_t> awaited;
    for (; partner != meetings_.partners.end() && partner->node == node;
         ++partner) {
      if (!waits_for(node, partner->awaited)) continue;
      awaited.push_back(partner->awaited);
      graph_.partners.push_back({places_[node], places_[partner->awaited]});
    }
    return awaited;
  }

  bool is_timed(uint32_t node) const {
    return draft_.ranks[loose_.place_of_rank(node)].timed;
  }

  // Whether a member ends, as far as clocks tell, no earlier than another of
  // its meeting begins.
  bool waits_for(uint32_t node, uint32_t other) const {
    if (!is_timed(node)) return true;
    int64_t tolerance_ns = kClockTolerance;
    if (loose_.start_ns[other] > loose_.start_ns[node]) {
      for (const uint32_t of : {node, other}) {
        const RankInfo& rank = draft_.trace.ranks[loose_.place_of_rank(of)];
        tolerance_ns += within(rank.clock_residual_ns, kWorstResidual);
      }
    }
    return loose_.end_ns(node) >= loose_.start_ns[other] - tolerance_ns;
  }

  // Takes the wait out of a member's duration, if it waited to the end.
  bool wait_for_others(uint32_t node, const std::vector<uint32_t>& awaited) {
    if (!is_timed(node)) return true;
    uint32_t last = node;
    for (const uint32_t other : awaited) {
      if (loose_.start_ns[other] > loose_.start_ns[last]) last = other;
    }
    if (awaited.empty() || !waits_for(node, last)) {
      ++draft_.tally.early_leavers;
      return false;
    }
    graph_.duration[places_[node]] = within(
        std::max<int64_t>(0, loose_.end_ns(node) - loose_.start_ns[last]),
        kLongest);
    return true;
  }

  // A step's end: that of its last node.
  void add_steps() {
    graph_.steps = draft_.steps;
    auto beyond = loose_.beyond_ns.begin();
    for (uint32_t node = 0; node < places_.size(); ++node) {
      if (loose_.step[node] < 0) continue;
      int64_t end_ns = loose_.end_ns(node);
      if (beyond != loose_.beyond_ns.end() && beyond->first == node) {
        graph_.beyond_ns.emplace_back(places_[node], beyond->second);
        end_ns -= (beyond++)->second;
      }
      TimedGraph::Span& step =
          graph_.steps[static_cast<size_t>(loose_.step[node])];
      step.end_ns = std::max(step.end_ns, end_ns);
    }
    std::sort(graph_.beyond_ns.begin(), graph_.beyond_ns.end());
    move_column(loose_.step, places_, last_, graph_.step);
  }

  void add_edges() {
    graph_.first.assign(graph_.size() + 1, 0);
    for (const uint32_t to : loose_.to) ++graph_.first[places_[to] + 1];
    std::partial_sum(graph_.first.begin(), graph_.first.end(),
                     graph_.first.begin());
    // While they are placed, first[n] is where the next edge into n goes.
    std::vector<uint32_t> place = last_ ? std::move(loose_.to) : loose_.to;
    for (uint32_t& to : place) to = graph_.first[places_[to]]++;
    std::shift_right(graph_.first.begin(), graph_.first.end(), 1);
    graph_.first.front() = 0;
    // Column by column, so that none is there twice for long.
    std::vector<uint8_t> kind;
    move_column(loose_.kind, place, last_, kind);
    TickColumn delay_ns;
    move_column(loose_.delay, place, last_, delay_ns);
    std::vector<uint32_t> from(place.size());
    for (uint32_t node = 0; node < places_.size(); ++node) {
      for (uint32_t edge = loose_.first_out[node];
           edge < loose_.first_out[node + 1]; ++edge) {
        from[place[edge]] = places_[node];
      }
    }
    graph_.edges = {std::move(delay_ns), std::move(from), std::move(kind)};
    if (last_) release(loose_);
  }

  GraphDraft& draft_;
  LooseGraph& loose_;
  const Meetings& meetings_;
  const bool last_;
  TimedGraph graph_;
  std::vector<uint32_t> places_;
};

}  // namespace

int64_t allows_ns(const GraphDraft& draft, const DraftEdge& edge) {
  const DraftNode& from = draft.nodes[edge.from];
  return (edge.from_start ? from.start_ns : from.end_ns) + edge.delay_ns;
}

std::vector<int64_t> ready_times(const GraphDraft& draft,
                                 const TimedGraph::Span& rank) {
  std::vector<int64_t> ready_ns(draft.nodes.size(), rank.start_ns);
  for (const DraftEdge& edge : draft.edges) {
    ready_ns[edge.to] = std::max(ready_ns[edge.to], allows_ns(draft, edge));
  }
  return ready_ns;
}

void take_untimed_waits_out(const GraphDraft& draft, LooseGraph& loose) {
  for (const MatchedCollective& one : draft.matching.collectives) {
    const bool is_pair = one.sender >= 0 || one.both_ways;
    if (!is_pair && !facts_of(one.kind).joins_all_ranks) continue;
    const std::vector<uint32_t> members = members_here(draft, loose, one);
    int64_t least_ns = kLongest;
    for (const uint32_t node : members) {
      const int64_t lasts_ns = loose.lasts[node];
      if (lasts_ns > 0) least_ns = std::min(least_ns, lasts_ns);
    }
    for (const uint32_t node : members) {
      loose.lasts[node] = std::min<int64_t>(loose.lasts[node], least_ns);
    }
  }
}

std::vector<DraftEdge> messages(const GraphDraft& draft,
                                const LooseGraph& loose) {
  std::vector<DraftEdge> edges;
  for (const MatchedCollective& collective : draft.matching.collectives) {
    const std::vector<uint32_t> members =
        members_here(draft, loose, collective);
    if (!is_untimed_message(draft, loose, collective, members)) continue;
    const auto sends = [&](uint32_t node) {
      return draft.trace.ranks[loose.place_of_rank(node)].rank ==
             static_cast<uint32_t>(collective.sender);
    };
    const bool first = sends(members[0]);
    if (first == sends(members[1])) continue;
    edges.push_back({0, members[first ? 0 : 1], members[first ? 1 : 0],
                     EdgeKind::kDependency, true});
  }
  return edges;
}

Meetings find_meetings(const GraphDraft& draft, const LooseGraph& loose) {
  Meetings meetings;
  meetings.of_node.assign(loose.size(), -1);
  for (const MatchedCollective& collective : draft.matching.collectives) {
    if (collective.members.size() < 2) continue;
    std::vector<uint32_t> members = members_here(draft, loose, collective);
    if (is_untimed_message(draft, loose, collective, members)) continue;
    const bool taken =
        std::any_of(members.begin(), members.end(),
                    [&](uint32_t node) { return meetings.of_node[node] >= 0; });
    const std::vector<TimedGraph::Partner> partners =
        partners_here(draft, loose, collective);
    if (collective.exchange >= 0) {
      std::erase_if(members, [&](uint32_t node) {
        return std::none_of(
            partners.begin(), partners.end(),
            [&](const TimedGraph::Partner& one) { return one.node == node; });
      });
    }
    if (members.size() < 2 || taken) continue;
    std::sort(members.begin(), members.end());
    meetings.partners.insert(meetings.partners.end(), partners.begin(),
                             partners.end());
    for (const uint32_t node : members) {
      meetings.of_node[node] = static_cast<int32_t>(meetings.members.size());
    }
    meetings.members.push_back(std::move(members));
  }
  std::sort(meetings.partners.begin(), meetings.partners.end());
  return meetings;
}

TimedGraph pack_graph(GraphDraft& draft, LooseGraph& loose,
                      const Meetings& meetings,
                      std::vector<TimedGraph::Span> ranks,
                      std::vector<uint32_t>& places, bool last) {
  Packer packer(draft, loose, meetings, std::move(ranks), last);
  TimedGraph graph = packer.run();
  places = std::move(packer).places();
  return graph;
}

}  // namespace reprise
