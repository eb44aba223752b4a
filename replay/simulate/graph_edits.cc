#include "replay/simulate/graph_edits.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "data/collective/collective.h"
#include "replay/graph/data_loading_name.h"
#include "replay/graph/evaluate.h"
#include "replay/graph/step_rules.h"

namespace reprise {
namespace {

// What a thread spends at once on handing work over is shorter.
constexpr int64_t kLongestHandOver = 1'000'000;

// The edge holds nothing up any more.
void cut(size_t at, TimedGraph& graph) {
  TimedGraph::Edge edge = graph.edges[at];
  edge.from_start = true;
  edge.delay_ns = -kEndOfTime / 2;
  graph.edges.set(at, edge);
}

void drop_time(size_t node, TimedGraph& graph) {
  graph.duration[node] = 0;
  scale_gap(node, 0, graph);
}

bool has(std::string_view name, std::string_view word) {
  return name.find(word) != std::string_view::npos;
}

bool copies_to_device(std::string_view name) {
  return has(name, "HtoD") || has(name, "H2D") || has(name, "HostToDevice");
}

bool copies_to_host(std::string_view name) {
  return has(name, "DtoH") || has(name, "D2H") || has(name, "DeviceToHost");
}

// Threads as the first of their nodes: [node], of host nodes.
std::vector<uint32_t> threads_of(const TimedGraph& graph) {
  std::vector<uint32_t> thread(graph.size());
  for (uint32_t node = 0; node < graph.size(); ++node) {
    thread[node] = node;
    for (uint32_t at = graph.first[node]; at < graph.first[node + 1]; ++at) {
      const TimedGraph::Edge edge = graph.edges[at];
      if (edge.kind == EdgeKind::kThread) thread[node] = thread[edge.from];
    }
  }
  return thread;
}

// Those before a node on its thread, down to `from`.
void mark_between(const std::vector<uint32_t>& before, uint32_t node,
                  uint32_t from, NodeSet& nodes) {
  for (uint32_t at = before[node]; at >= from; at = before[at]) {
    nodes[at] = true;
    if (before[at] == at) return;
  }
}

}  // namespace

int64_t scaled(int64_t time, double factor) {
  return std::llround(
      std::min(static_cast<double>(time) * factor, kLongestEdit_ns));
}

void scale_gap(size_t node, double factor, TimedGraph& graph) {
  if (graph.rules) return;
  graph.gap[node] = scaled(graph.gap[node], factor);
  graph.named[node] =
      std::min<int64_t>(graph.gap[node], scaled(graph.named[node], factor));
}

bool graphs_hide_collectives(const NodeFacts& facts, const TimedGraph& graph) {
  const auto recorded =
      std::count_if(graph.ranks.begin(), graph.ranks.end(),
                    [](const auto& rank) { return rank.is_recorded(); });
  bool whole = false;
  for (uint32_t node = 0; node < graph.size(); ++node) {
    if (graph.collective[node] >= 0) return false;
    whole = whole || (facts.kind(graph.origin[node]) == PathKind::kKernel &&
                      facts.name(graph.origin[node]).starts_with(kWholeGraph));
  }
  return whole && recorded > 1;
}

bool communicates(const NodeFacts& facts, const TimedGraph& graph,
                  size_t node) {
  return graph.collective[node] >= 0 ||
         facts.kind(graph.origin[node]) == PathKind::kCollective;
}

Status no_transfers(const NodeFacts& facts, const TimedGraph& graph) {
  int64_t unmatched = 0, matched = 0;
  for (uint32_t node = 0; node < graph.size(); ++node) {
    const bool met = graph.collective[node] >= 0;
    matched += met;
    unmatched +=
        !met && facts.kind(graph.origin[node]) == PathKind::kCollective;
  }
  if (unmatched == 0) {
    return fail(
        ErrorKind::kInvalid,
        "--what-if bandwidth or latency: the trace has no collectives{}",
        matched > 0 ? " but barriers, which move no data" : "");
  }
  return fail(ErrorKind::kInvalid,
              "--what-if bandwidth or latency: nothing tells which ranks meet "
              "in the trace's {} collectives and messages, nor how long they "
              "wait there; record every rank, and with the calls their groups, "
              "peers and sizes",
              unmatched);
}

NodeSet own_gaps(const NodeFacts& facts, const TimedGraph& graph) {
  NodeSet on_host(graph.size(), false), on_device(graph.size(), false);
  NodeSet collectives(graph.size(), false);
  bool any_host = false, any_device = false;
  for (uint32_t node = 0; node < graph.size(); ++node) {
    if (graph.under_way(node)) continue;
    const bool host = facts.on_host(graph.origin[node]);
    if (graph.collective[node] >= 0) {
      collectives[node] = true;
    } else {
      (host ? on_host : on_device)[node] = true;
      (host ? any_host : any_device) = true;
    }
  }
  if (any_host || graph.rules) return on_host;
  return any_device ? on_device : collectives;
}

void keep_under_way(const TimedGraph& recorded, TimedGraph& edited) {
  for (size_t node = 0; node < recorded.step.size(); ++node) {
    if (!recorded.under_way(node)) continue;
    edited.duration[node] = recorded.duration[node];
    edited.gap[node] = recorded.gap[node];
    edited.named[node] = recorded.named[node];
  }
}

void renew_transfers(TimedGraph& graph) {
  for (size_t node = 0; node < graph.size(); ++node) {
    if (graph.collective[node] < 0) continue;
    const size_t place = static_cast<size_t>(graph.collective[node]);
    graph.duration[node] =
        ticks_of(graph.rules->transfers[place].duration_ns, graph.tick_bits);
  }
}

NodeSet collective_nodes(const TimedGraph& graph) {
  NodeSet nodes(graph.size(), false);
  for (size_t node = 0; node < graph.size(); ++node) {
    nodes[node] = graph.collective[node] >= 0;
  }
  return nodes;
}

NodeSet message_nodes(const TimedGraph& graph) {
  NodeSet nodes(graph.size(), false);
  if (graph.rules) return nodes;  // Programs of ours send none.
  for (size_t node = 0; node < graph.size(); ++node) {
    if (graph.collective[node] < 0) continue;
    const auto place = static_cast<size_t>(graph.collective[node]);
    nodes[node] = place < graph.transfers.size() &&
                  is_message(graph.transfers[place].group.kind);
  }
  return nodes;
}

NodeSet blocking_nodes(const NodeFacts& facts, const TimedGraph& graph) {
  NodeSet nodes(graph.size(), false);
  for (uint32_t node = 0; node < graph.size(); ++node) {
    for (uint32_t at = graph.first[node]; at < graph.first[node + 1]; ++at) {
      const TimedGraph::Edge edge = graph.edges[at];
      if (edge.kind != EdgeKind::kSynchronization) continue;
      nodes[node] = !copies_to_device(facts.name(graph.origin[edge.from]));
    }
  }
  return nodes;
}

NodeSet host_copies(const NodeFacts& facts, const TimedGraph& graph) {
  NodeSet nodes(graph.size(), false);
  for (uint32_t node = 0; node < graph.size(); ++node) {
    if (facts.kind(graph.origin[node]) != PathKind::kCopy) continue;
    const std::string_view name = facts.name(graph.origin[node]);
    nodes[node] = copies_to_device(name) || copies_to_host(name);
  }
  return nodes;
}

DataLoading data_loading(const NodeFacts& facts, const TimedGraph& graph) {
  const std::vector<uint32_t> thread = threads_of(graph);
  std::vector<int8_t> known(facts.name_count(), -1);
  const auto loads_data = [&](uint32_t origin) {
    int8_t& answer = known[facts.name_number(origin)];
    if (answer < 0) answer = names_data_loading(facts.name(origin)) ? 1 : 0;
    return answer == 1;
  };
  struct Loading {
    uint32_t event = 0;  // The range,
    uint32_t from = 0;   // and the first node that is in it if it goes on.
  };
  // By thread; a node is in a range once that has another stretch behind it.
  std::unordered_map<uint32_t, Loading> open;
  std::vector<uint32_t> before(graph.size());  // [node] On its thread.
  std::unordered_map<uint32_t, uint32_t> newest;
  DataLoading data = {NodeSet(graph.size(), false),
                      NodeSet(graph.size(), false)};
  for (uint32_t node = 0; node < graph.size(); ++node) {
    const uint32_t origin = graph.origin[node];
    if (!facts.on_host(origin)) continue;
    const auto [last, first_of_all] = newest.try_emplace(thread[node], node);
    before[node] = last->second;
    last->second = node;
    const bool gap = !graph.named.empty() && graph.named[node] > 0 &&
                     loads_data(graph.range[node]);
    const bool own = loads_data(origin);
    if (!gap && !own) continue;
    const uint32_t event = own ? origin : graph.range[node];
    const auto [range, added] =
        open.try_emplace(thread[node], Loading{event, node});
    if (!added && range->second.event == event)
      mark_between(before, node, range->second.from, data.nodes);
    // Of a range that is a gap, the node behind may be inside.
    range->second = {event, own ? node + 1 : node};
    data.nodes[node] = own;
    data.gaps[node] = gap;
  }
  return data;
}

namespace {

struct NewEdge {
  TimedGraph::Edge edge;
  uint32_t to = 0;
};

// Edges that come on top; `added` are by target.
void add_edges(const std::vector<NewEdge>& added, TimedGraph& graph) {
  if (added.empty()) return;
  TimedGraph::Edges edges;
  edges.reserve(graph.edges.size() + added.size());
  auto next = added.begin();
  uint32_t begin = 0;
  for (uint32_t node = 0; node < graph.size(); ++node) {
    const uint32_t end = graph.first[node + 1];
    for (uint32_t at = begin; at < end; ++at) edges.push_back(graph.edges[at]);
    for (; next != added.end() && next->to == node; ++next) {
      edges.push_back(next->edge);
    }
    begin = end;
    graph.first[node + 1] = static_cast<uint32_t>(edges.size());
  }
  graph.edges = std::move(edges);
}

// Between nodes of the set that follow each other on a stream or thread, with
// others in between.
std::vector<NewEdge> order_within(const NodeSet& nodes,
                                  const TimedGraph& graph) {
  constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();
  std::vector<uint32_t> last(graph.size(), kNone);  // Of the set, in its row.
  std::vector<NewEdge> added;
  for (uint32_t node = 0; node < graph.size(); ++node) {
    for (uint32_t at = graph.first[node]; at < graph.first[node + 1]; ++at) {
      const TimedGraph::Edge edge = graph.edges[at];
      const bool row = edge.kind == EdgeKind::kThread ||
                       (edge.kind == EdgeKind::kStream && !edge.from_start);
      if (!row) continue;
      last[node] = last[edge.from];
      if (nodes[node] && !nodes[edge.from] && last[node] != kNone) {
        added.push_back({{0, last[node], EdgeKind::kStream, false}, node});
      }
      break;
    }
    if (nodes[node]) last[node] = node;
  }
  return added;
}

// What waits for a message to begin on its own rank waits for it to begin on
// the other one too.
std::vector<NewEdge> sends_before_use(const NodeSet& messages,
                                      const TimedGraph& graph) {
  std::vector<std::vector<uint32_t>> members(graph.transfers.size());
  for (uint32_t node = 0; node < graph.size(); ++node) {
    if (!messages[node]) continue;
    members[static_cast<size_t>(graph.collective[node])].push_back(node);
  }
  std::vector<NewEdge> added;
  for (uint32_t node = 0; node < graph.size(); ++node) {
    if (graph.collective[node] >= 0) continue;
    for (uint32_t at = graph.first[node]; at < graph.first[node + 1]; ++at) {
      TimedGraph::Edge edge = graph.edges[at];
      if (!messages[edge.from] || !edge.from_start) continue;
      const auto place = static_cast<size_t>(graph.collective[edge.from]);
      const uint32_t own = edge.from;
      const auto partners = graph.partners_of(own);
      const auto awaits = [&](uint32_t other) {
        return partners.empty() ? other != own
                                : std::any_of(partners.begin(), partners.end(),
                                              [&](const auto& partner) {
                                                return partner.awaited == other;
                                              });
      };
      for (const uint32_t other : members[place]) {
        edge.from = other;
        if (other < node && awaits(other)) added.push_back({edge, node});
      }
    }
  }
  return added;
}

}  // namespace

void free_ends(const NodeSet& nodes, TimedGraph& graph) {
  if (!graph.rules) add_edges(order_within(nodes, graph), graph);
  for (size_t node = 0; node < graph.size(); ++node) {
    if (nodes[node]) continue;
    for (uint32_t at = graph.first[node]; at < graph.first[node + 1]; ++at) {
      TimedGraph::Edge edge = graph.edges[at];
      if (!nodes[edge.from]) continue;
      edge.from_start = true;
      graph.edges.set(at, edge);
    }
  }
}

void overlap_collectives(TimedGraph& graph) {
  free_ends(collective_nodes(graph), graph);
  add_edges(sends_before_use(message_nodes(graph), graph), graph);
}

void drop_host_waits(const NodeSet& nodes, TimedGraph& graph) {
  for (size_t node = 0; node < graph.size(); ++node) {
    if (!nodes[node]) continue;
    for (uint32_t at = graph.first[node]; at < graph.first[node + 1]; ++at) {
      if (graph.edges[at].kind == EdgeKind::kSynchronization) cut(at, graph);
    }
  }
}

void overlap_copies(const NodeFacts& facts, TimedGraph& graph) {
  const NodeSet copies = host_copies(facts, graph);
  for (size_t node = 0; node < graph.size(); ++node) {
    for (uint32_t at = graph.first[node]; at < graph.first[node + 1]; ++at) {
      const TimedGraph::Edge edge = graph.edges[at];
      if (!copies[edge.from] || edge.kind != EdgeKind::kSynchronization) {
        continue;
      }
      if (copies_to_device(facts.name(graph.origin[edge.from]))) {
        cut(at, graph);
      }
    }
  }
  free_ends(copies, graph);
}

void remove_time(const NodeSet& nodes, TimedGraph& graph) {
  for (size_t node = 0; node < graph.size(); ++node) {
    if (nodes[node]) drop_time(node, graph);
  }
}

void remove_data_loading(const DataLoading& data, TimedGraph& graph) {
  remove_time(data.nodes, graph);
  for (size_t node = 0; node < graph.size(); ++node) {
    if (!data.gaps[node]) continue;
    graph.gap[node] += -int64_t{graph.named[node]};
    graph.named[node] = 0;
  }
}

void capture_launches(const DataLoading& data, const NodeFacts& facts,
                      TimedGraph& graph) {
  const std::vector<uint32_t> thread = threads_of(graph);
  NodeSet launches(graph.size(), false);  // [thread]
  for (size_t at = 0; at < graph.edges.size(); ++at) {
    const TimedGraph::Edge edge = graph.edges[at];
    if (edge.kind == EdgeKind::kLaunch) launches[thread[edge.from]] = true;
  }
  for (uint32_t node = 0; node < graph.size(); ++node) {
    if (!launches[thread[node]] || data.nodes[node]) continue;
    if (graph.collective[node] >= 0 || !facts.on_host(graph.origin[node])) {
      continue;
    }
    if (graph.duration[node] < kLongestHandOver) graph.duration[node] = 0;
    const int64_t loading_ns = data.gaps[node] ? int64_t{graph.named[node]} : 0;
    if (loading_ns > 0) {
      graph.gap[node] = graph.named[node] = loading_ns;
    } else if (graph.gap[node] < kLongestHandOver) {
      scale_gap(node, 0, graph);
    }
  }
}

void scale_parts(std::span<const int32_t> part, std::span<const double> factor,
                 TimedGraph& graph) {
  for (size_t node = 0; node < graph.size(); ++node) {
    if (part[node] < 0) continue;
    const size_t place = static_cast<size_t>(part[node]) * graph.ranks.size() +
                         uint32_t{graph.rank[node]};
    graph.duration[node] = scaled(graph.duration[node], factor[place]);
  }
}

void fuse_kernels(const std::vector<std::vector<uint32_t>>& runs,
                  int64_t floor_ns, const NodeSet& freed, TimedGraph& graph) {
  for (const std::vector<uint32_t>& run : runs) {
    for (size_t place = 1; place < run.size(); ++place) {
      const uint32_t node = run[place];
      graph.duration[node] =
          std::max<int64_t>(0, graph.duration[node] - floor_ns);
      graph.gap[node] = 0;
      graph.named[node] = 0;
      for (uint32_t at = graph.first[node]; at < graph.first[node + 1]; ++at) {
        TimedGraph::Edge edge = graph.edges[at];
        if (edge.delay_ns <= 0) continue;
        edge.delay_ns = 0;
        graph.edges.set(at, edge);
      }
    }
  }
  remove_time(freed, graph);
}

}  // namespace reprise
