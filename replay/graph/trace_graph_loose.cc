// All ranks of a graph under construction: what a rank adds, and edges between
// what is there. Columns grow by what the ranks so far say of the rest, so that
// they are hardly ever moved.
#include <algorithm>
#include <numeric>
#include <utility>

#include "replay/graph/trace_graph_draft.h"

namespace reprise {
namespace {

/// Room for `added` more in each column, and as many again for every event that
/// is still to come as there are for one that came (and a fiftieth).
template <typename... Columns>
void make_room(size_t added, double events_left, Columns&... columns) {
  const auto make = [&](auto& column) {
    const size_t size = column.size() + added;
    if (size <= column.capacity()) return;
    column.reserve(size + static_cast<size_t>(static_cast<double>(size) * 1.02 *
                                              events_left));
  };
  (make(columns), ...);
}

template <typename... Columns>
void resize(size_t count, Columns&... columns) {
  (columns.resize(count), ...);
}

uint8_t code_of(const DraftEdge& edge) {
  return TimedGraph::Edges::code_of(edge.kind, edge.from_start);
}

}  // namespace

void LooseGraph::add_nodes(const GraphDraft& draft, uint32_t first) {
  const size_t count = first + draft.nodes.size();
  resize(count, start_ns, lasts, event, named, range, step);
  uint32_t node = first;
  for (const DraftNode& one : draft.nodes) {
    start_ns[node] = one.start_ns;
    lasts[node] = one.end_ns - one.start_ns;
    event[node] = draft.base + one.event;
    named[node] = one.named_ns;
    range[node] = one.named_ns > 0 ? draft.base + one.range : 0;
    step[node] = one.step;
    if (one.beyond_ns > 0) beyond_ns.emplace_back(node, one.beyond_ns);
    if (one.collective >= 0) {
      collectives.emplace_back(node, static_cast<uint32_t>(one.collective));
    }
    ++node;
  }
}

// By source, in the order in which they were found.
void LooseGraph::add_edges(const GraphDraft& draft, uint32_t first,
                           uint32_t first_edge) {
  const size_t nodes = draft.nodes.size(), count = draft.edges.size();
  resize(first_edge + count, to, delay, kind);
  resize(draft.trace.dependencies.empty() ? 0 : first_edge + count, turn);
  resize(first + nodes + 1, first_out);
  uint32_t* const out = first_out.data() + first + 1;
  for (const DraftEdge& edge : draft.edges) ++out[edge.from];
  // out[n] becomes where the next edge out of n goes: at last, their end.
  uint32_t next = first_edge;
  for (size_t node = 0; node < nodes; ++node) {
    next += std::exchange(out[node], next);
  }
  for (size_t place = 0; place < count; ++place) {
    const DraftEdge& edge = draft.edges[place];
    const uint32_t at = out[edge.from]++;
    to[at] = first + edge.to;
    delay[at] = edge.delay_ns;
    kind[at] = code_of(edge);
    if (!turn.empty()) turn[at] = first_edge + static_cast<uint32_t>(place);
  }
}

void LooseGraph::add_rank(const GraphDraft& draft) {
  const auto first = static_cast<uint32_t>(size());
  const auto first_edge = static_cast<uint32_t>(to.size());
  const size_t done = draft.base + draft.last;
  const size_t left = draft.by_rank.event_count() - done;
  const double part =
      done == 0 ? 0 : static_cast<double>(left) / static_cast<double>(done);
  make_room(draft.nodes.size(), part, start_ns, lasts, event, named, range,
            step, first_out);
  make_room(draft.edges.size(), part, to, delay, kind);
  rank_first.push_back(first);
  add_nodes(draft, first);
  add_edges(draft, first, first_edge);
  const auto& members = draft.matching.of_event;
  auto member = std::lower_bound(
      members.begin(), members.end(),
      CollectiveMatching::EventPlace{draft.base + draft.first, 0});
  for (; member != members.end() && member->event < done; ++member) {
    const uint32_t node = draft.first_node[member->event - draft.base];
    if (node == kNoNode || draft.nodes[node].cut) continue;
    member_node[static_cast<size_t>(member - members.begin())] = first + node;
  }
}

void LooseGraph::add_edges(const std::vector<DraftEdge>& edges) {
  if (edges.empty()) return;
  std::vector<uint32_t> order(edges.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return edges[a].from < edges[b].from;
  });
  const auto old_first = std::exchange(first_out, {0});
  const auto old_to = std::exchange(to, {});
  const auto old_delay = std::exchange(delay, {});
  const auto old_kind = std::exchange(kind, {});
  const auto old_turn = std::exchange(turn, {});
  const auto first_turn = static_cast<uint32_t>(old_to.size());
  auto next = order.begin();
  for (uint32_t node = 0; node < size(); ++node) {
    for (uint32_t at = old_first[node]; at < old_first[node + 1]; ++at) {
      to.push_back(old_to[at]);
      delay.push_back(old_delay[at]);
      kind.push_back(old_kind[at]);
      if (!old_turn.empty()) turn.push_back(old_turn[at]);
    }
    for (; next != order.end() && edges[*next].from == node; ++next) {
      to.push_back(edges[*next].to);
      delay.push_back(edges[*next].delay_ns);
      kind.push_back(code_of(edges[*next]));
      if (!old_turn.empty()) turn.push_back(first_turn + *next);
    }
    first_out.push_back(static_cast<uint32_t>(to.size()));
  }
}

}  // namespace reprise
