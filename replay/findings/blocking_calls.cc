// Host calls that wait for the device in the middle of a step, so that the
// device waits for the host afterwards.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/integers.h"
#include "replay/findings/finding_kinds.h"

namespace reprise {
namespace {

constexpr size_t kMostGroups = 3;  ///< That are tried one by one.

/// Calls of one name from one operator.
struct BlockingGroup {
  std::string_view call, around;
  std::vector<uint32_t> nodes;
  int64_t waited_ns = 0;
};

/// The stretch before it on its thread: of the operator that calls.
uint32_t before_on_thread(const TimedGraph& graph, uint32_t node) {
  for (uint32_t at = graph.first[node]; at < graph.first[node + 1]; ++at) {
    const TimedGraph::Edge edge = graph.edges[at];
    if (edge.kind == EdgeKind::kThread) return edge.from;
  }
  return node;
}

std::vector<BlockingGroup> groups_of(const FindingInput& input) {
  const TimedGraph& graph = input.graph;
  const NodeSet blocking = blocking_nodes(input.facts, graph);
  std::map<std::pair<std::string_view, std::string_view>, BlockingGroup> groups;
  for (uint32_t node = 0; node < graph.size(); ++node) {
    if (!blocking[node]) continue;
    uint32_t before = before_on_thread(graph, node);
    const int64_t waited_ns = before == node ? 0
                                             : input.times.start_ns[node] -
                                                   input.times.end_ns[before];
    // The call's own first stretch is no operator.
    while (before_on_thread(graph, before) != before &&
           graph.origin[before] == graph.origin[node]) {
      before = before_on_thread(graph, before);
    }
    const bool by_operator =
        before != node && !input.facts.is_call(graph.origin[before]);
    const std::string_view around =
        by_operator ? input.name(before) : std::string_view();
    BlockingGroup& group = groups[{around, input.name(node)}];
    group.call = input.name(node);
    group.around = around;
    group.nodes.push_back(node);
    group.waited_ns =
        saturating_add(group.waited_ns, std::max<int64_t>(0, waited_ns));
  }
  std::vector<BlockingGroup> sorted;
  sorted.reserve(groups.size());
  for (auto& [key, group] : groups) sorted.push_back(std::move(group));
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const BlockingGroup& a, const BlockingGroup& b) {
                     return a.waited_ns > b.waited_ns;
                   });
  return sorted;
}

std::string_view action_of(const FindingInput& input,
                           const BlockingGroup& group) {
  const auto has = [&](std::string_view word) {
    return group.around.find(word) != std::string_view::npos ||
           group.call.find(word) != std::string_view::npos;
  };
  if (has("item") || has("local_scalar_dense")) {
    return "keep the value on the device, and read it every some steps "
           "(loss.detach(), metrics)";
  }
  if (has("nonzero") || has("masked_select") || has("unique")) {
    return "its result's size must reach the host: use a mask or a fixed size";
  }
  if (has("Free") || has("Malloc")) {
    return input.words({.torch = "allocate from a pool once (PyTorch's caching "
                                 "allocator)",
                        .jax = "allocate from a pool once",
                        .other = "allocate from a pool once"});
  }
  if (has("Memcpy")) {
    return "read results later, or from pinned memory without waiting";
  }
  return "remove the wait, or move it to the end of the step";
}

Candidate candidate_of(const FindingInput& input, const BlockingGroup& group,
                       NodeSet nodes) {
  Candidate candidate;
  Finding& finding = candidate.finding;
  finding.where.kernel = group.around.empty() ? group.call : group.around;
  finding.where.ranks = {input.rank_number(group.nodes[0])};
  finding.evidence.push_back(
      fmt::format("{}{}{} waits {} for the device, in {} calls", group.call,
                  group.around.empty() ? "" : " in ", group.around,
                  finding_time(group.waited_ns), group.nodes.size()));
  finding.action = action_of(input, group);
  finding.command = input.words(
      {"torch.cuda.set_sync_debug_mode('warn') names the lines that wait", ""});
  candidate.origin = input.graph.origin[group.nodes[0]];
  candidate.remove = [nodes = std::move(nodes)](TimedGraph& edited) {
    drop_host_waits(nodes, edited);
  };
  return candidate;
}

}  // namespace

void find_blocking_calls(const FindingInput& input, Candidates& found) {
  const std::vector<BlockingGroup> groups = groups_of(input);
  if (groups.empty()) return;
  for (size_t at = 0; at < std::min(groups.size(), kMostGroups); ++at) {
    if (groups[at].waited_ns < input.least_ns) break;
    NodeSet nodes(input.graph.size(), false);
    for (const uint32_t node : groups[at].nodes) nodes[node] = true;
    Candidate candidate = candidate_of(input, groups[at], std::move(nodes));
    candidate.finding.what = fmt::format("the host waits for the device in {}",
                                         candidate.finding.where.kernel);
    if (groups.size() == 1) candidate.finding.what_if = "sync=none";
    found.push_back(std::move(candidate));
  }
  const int64_t waited_ns =
      std::accumulate(groups.begin(), groups.end(), int64_t{0},
                      [](int64_t sum, const BlockingGroup& one) {
                        return sum + one.waited_ns;
                      });
  if (groups.size() == 1 || waited_ns < input.least_ns) return;
  Candidate all =
      candidate_of(input, groups[0], blocking_nodes(input.facts, input.graph));
  all.finding.what =
      fmt::format("the host waits for the device in {} places, most in {}",
                  groups.size(), all.finding.where.kernel);
  all.finding.what_if = "sync=none";
  found.push_back(std::move(all));
}

}  // namespace reprise
