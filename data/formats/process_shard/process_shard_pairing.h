// Which kernel of NCCL's, as CUPTI recorded it, ran which of the calls that
// NCCL's plugin or the interposer recorded in the same process.
//
// A call and the launch of its kernel are neighbours on one host thread. Of a
// CUDA graph the creation of the kernel's node stands for the launch: there the
// call was made, once. Where NCCL has host work of its own at each replay, its
// plugin hears of the calls again, then, from the driver's threads: these are
// recognized by the captured call that they name or, of NCCL 2.27, which does
// not name it, by a sequence that comes back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "data/formats/process_shard/process_shard_graphs.h"
#include "data/formats/process_shard/process_shard_nccl.h"
#include "data/formats/process_shard/process_shard_timer.h"

namespace reprise {

/// The calls and kernels of one process.
class NcclPairing {
 public:
  NcclPairing(const std::vector<SurveyedShard>& shards,
              const RecordedProcess& process);

  /// What the kernel ran; null: it is not known.
  const NcclKernelRun* run_of(size_t shard, int64_t correlation,
                              int64_t graph_node) const;
  /// Whether kernels show when the call ran.
  bool has_kernel(NcclCallPlace call) const {
    return kernel_start_.contains(call) || shared_.contains(call);
  }
  const GpuTimer& timer() const { return timer_; }

 private:
  struct Unit;
  struct Launch;
  struct Draft;
  void pair(std::vector<Unit>& units, const std::vector<Launch>& launches);
  void pair_by_order(std::vector<Unit>& units);
  void give(const Launch& launch, Unit& unit);
  void give(const NcclGraphNode& node, Unit& unit);
  void learn_timer(const RecordedProcess& process);
  const NcclCall& call_at(NcclCallPlace place) const {
    return shards_[place.shard].survey.nccl_calls[place.call];
  }

  const std::vector<SurveyedShard>& shards_;
  std::vector<NcclGraphNode> nodes_;
  std::vector<uint8_t> is_node_known_;  ///< [node]
  /// By shard, correlation and node of a graph.
  std::map<std::tuple<size_t, int64_t, int64_t>, NcclKernelRun> of_kernel_;
  std::map<NcclCallPlace, int64_t> kernel_start_;
  std::set<NcclCallPlace> shared_;  ///< Of kernels that have no own calls.
  GpuTimer timer_;
};

}  // namespace reprise
