// Each value is an edge from its `in` to its `out`, of its bytes; reading is an
// edge without limit. A cut between what cannot be computed again and what is
// needed is a choice of kept values.
#include "optimizer/recompute/kept_values.h"

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/push_relabel_max_flow.hpp>

namespace reprise {
namespace {

using Traits =
    boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;

struct FlowEdge {
  int64_t capacity = 0, residual = 0;
  Traits::edge_descriptor reverse{};
};
using FlowNetwork =
    boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS,
                          boost::no_property, FlowEdge>;

void add_edge(FlowNetwork& network, size_t from, size_t to, int64_t capacity) {
  const auto edge = boost::add_edge(from, to, {.capacity = capacity}, network);
  const auto back = boost::add_edge(to, from, {}, network);
  network[edge.first].reverse = back.first;
  network[back.first].reverse = edge.first;
}

/// [vertex] A path with capacity left leads from it to `sink`.
std::vector<bool> reaching(const FlowNetwork& network, size_t sink) {
  std::vector<bool> reaches(boost::num_vertices(network), false);
  std::vector<size_t> stack{sink};
  reaches[sink] = true;
  while (!stack.empty()) {
    const size_t at = stack.back();
    stack.pop_back();
    const auto [begin, end] = boost::out_edges(at, network);
    for (auto edge = begin; edge != end; ++edge) {
      const size_t from = boost::target(*edge, network);
      if (reaches[from] || network[network[*edge].reverse].residual == 0)
        continue;
      reaches[from] = true;
      stack.push_back(from);
    }
  }
  return reaches;
}

}  // namespace

std::vector<bool> fewest_bytes_kept(const std::vector<CrossingValue>& values) {
  const size_t source = 2 * values.size(), sink = source + 1;
  const auto in = [](size_t value) { return 2 * value; };
  const auto out = [](size_t value) { return 2 * value + 1; };
  int64_t unlimited = 1;
  for (const CrossingValue& value : values) unlimited += value.bytes;
  FlowNetwork network(sink + 1);
  for (size_t v = 0; v < values.size(); ++v) {
    add_edge(network, in(v), out(v), values[v].bytes);
    if (values[v].needed) add_edge(network, out(v), sink, unlimited);
    if (!values[v].recomputable) {
      add_edge(network, source, in(v), unlimited);
      continue;
    }
    for (const uint32_t input : values[v].inputs)
      add_edge(network, out(input), in(v), unlimited);
  }
  boost::push_relabel_max_flow(network, source, sink,
                               boost::get(&FlowEdge::capacity, network),
                               boost::get(&FlowEdge::residual, network),
                               boost::get(&FlowEdge::reverse, network),
                               boost::get(boost::vertex_index, network));
  const std::vector<bool> needs = reaching(network, sink);
  std::vector<bool> kept(values.size());
  for (size_t v = 0; v < values.size(); ++v)
    kept[v] = needs[out(v)] && !needs[in(v)];
  return kept;
}

}  // namespace reprise
