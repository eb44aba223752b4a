// CUPTI reports a node once when it is created and once for each kernel that it
// runs; clones (one an instantiation, or an update) lead back to the captured
// node. Launches of one graph are numbered by their correlation, which tells
// the replay.
#include "data/formats/process_shard/process_shard_graphs.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "data/formats/nccl_names.h"

namespace reprise {
namespace {

/// Of one shard.
class GraphNodes {
 public:
  GraphNodes(const SurveyedShard& shard, size_t place)
      : shard_(shard), place_(place) {}

  void find(std::vector<NcclGraphNode>& nodes) {
    for (size_t i = 0; i < kernels().size(); ++i) {
      const NcclKernel& kernel = kernels()[i];
      if (kernel.graph_node < 0 || kernel.correlation < 0) continue;
      const int64_t node = shard_.survey.original_of(kernel.graph_node);
      if (!shard_.survey.created_nodes.contains(node)) continue;
      of_node_[node].push_back(i);
    }
    join_graphs();
    number_launches();
    for (const auto& [node, ran] : of_node_) nodes.push_back(node_of(node));
  }

 private:
  const std::vector<NcclKernel>& kernels() const {
    return shard_.survey.nccl_kernels;
  }

  /// Nodes that one launch ran are of one graph.
  void join_graphs() {
    std::map<int64_t, int64_t> node_of_launch;
    for (const auto& [node, ran] : of_node_) {
      graph_.emplace(node, node);
      for (const size_t kernel : ran) {
        const auto [place, is_new] =
            node_of_launch.emplace(kernels()[kernel].correlation, node);
        if (!is_new) graph_[graph_of(node)] = graph_of(place->second);
      }
    }
  }
  int64_t graph_of(int64_t node) {
    while (graph_[node] != node) node = graph_[node] = graph_[graph_[node]];
    return node;
  }

  /// Kernels are in the order of their launches.
  void number_launches() {
    std::map<size_t, int64_t> graph_of_kernel;
    for (const auto& [node, ran] : of_node_) {
      for (const size_t kernel : ran) graph_of_kernel[kernel] = graph_of(node);
    }
    for (const auto& [kernel, graph] : graph_of_kernel) {
      auto& launches = launches_[graph];
      launches.try_emplace(kernels()[kernel].correlation,
                           static_cast<int64_t>(launches.size()));
    }
  }

  NcclGraphNode node_of(int64_t node) {
    const auto& launches = launches_[graph_of(node)];
    NcclGraphNode found;
    found.shard = place_;
    found.created = shard_.survey.created_nodes.at(node);
    found.replays = static_cast<int64_t>(launches.size());
    for (const size_t kernel : of_node_[node]) {
      found.kernels.push_back(
          {kernel, launches.at(kernels()[kernel].correlation)});
    }
    const uint32_t name = kernels()[found.kernels.front().kernel].name;
    found.kind = describe_nccl_kernel(shard_.contents.text(name)).kind;
    return found;
  }

  const SurveyedShard& shard_;
  size_t place_;
  std::map<int64_t, std::vector<size_t>> of_node_;  ///< By original node.
  std::map<int64_t, int64_t> graph_;  ///< Node to another of its graph.
  /// Graph -> correlation of a launch -> its number.
  std::map<int64_t, std::map<int64_t, int64_t>> launches_;
};

}  // namespace

std::vector<NcclGraphNode> nccl_graph_nodes(
    const std::vector<SurveyedShard>& shards, const RecordedProcess& process) {
  std::vector<NcclGraphNode> nodes;
  for (const size_t shard : process.shards) {
    GraphNodes(shards[shard], shard).find(nodes);
  }
  std::stable_sort(
      nodes.begin(), nodes.end(),
      [](const NcclGraphNode& a, const NcclGraphNode& b) {
        return std::tie(a.shard, a.created.thread, a.created.start_ns) <
               std::tie(b.shard, b.created.thread, b.created.start_ns);
      });
  return nodes;
}

}  // namespace reprise
