// Kernels of NCCL's that CUDA graphs launched: NCCL was called once, when the
// graph was captured, by the thread that created the kernel's node.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "data/formats/process_shard/process_shard_ranks.h"

namespace reprise {

/// A node that ran kernels of NCCL's, and when.
struct NcclGraphNode {
  size_t shard = 0;
  HostMoment created;
  CollectiveKind kind{};  ///< kUnknown where the name does not tell.
  struct Kernel {
    size_t kernel = 0;   ///< In the survey of the shard.
    int64_t replay = 0;  ///< Of the launches of its graph that were recorded.
  };
  std::vector<Kernel> kernels;  ///< In their order.
  int64_t replays = 0;          ///< Launches, also those whose kernel was lost.
};

/// Of one process, in the order of shards, threads and creation. Graphs made
/// from one capture count as one. Nodes whose creation was not recorded are
/// left out.
std::vector<NcclGraphNode> nccl_graph_nodes(
    const std::vector<SurveyedShard>& shards, const RecordedProcess& process);

}  // namespace reprise
