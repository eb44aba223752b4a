// What a first walk over a process shard learns, and later walks need before
// the record that it concerns: who caused what, NCCL's calls whole, and how
// much there is of each kind.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "data/formats/process_shard/process_shard_contents.h"
#include "data/trace/trace.h"

namespace reprise {

/// The JSON object of a kCollective record.
struct NcclCallInfo {
  CollectiveKind kind = CollectiveKind::kUnknown;
  std::string communicator;
  std::optional<PrimitiveType> type;
  int64_t count = -1;                        ///< Elements as NCCL counts them.
  int64_t rank = -1, ranks = -1, peer = -1;  ///< In the communicator.
  std::string attributes;  ///< JSON object of what no field holds, or "".
};

/// From first start to last end; none while start > end.
struct TimeSpan {
  int64_t start_ns = INT64_MAX, end_ns = INT64_MIN;
  bool is_set() const { return start_ns <= end_ns; }
  void extend(int64_t start, int64_t end) {
    start_ns = std::min(start_ns, start);
    end_ns = std::max(end_ns, end);
  }
};

/// A collective or point-to-point call with all that belongs to it.
struct NcclCall {
  int64_t id = -1;
  int64_t group = -1;  ///< Launched with others of the same number; -1: alone.
  int64_t api = -1;    ///< The host program's call that made it.
  int64_t thread = -1;
  int64_t start_ns = 0, end_ns = 0;  ///< On the host.
  int64_t bytes = 0, sequence = -1;
  bool is_outside_window = false;
  uint32_t name = 0, info = 0;  ///< Strings of the shard.
  TimeSpan timer = {};          ///< Of its channels, on the GPU's own clock.
  /// At least so much is to be taken off the GPU's clock to have the host's.
  std::optional<int64_t> timer_ahead_ns = {};
  TimeSpan network = {};
  int64_t network_bytes = 0, network_steps = 0;
};

/// A kernel of NCCL's, as CUPTI recorded it.
struct NcclKernel {
  int64_t correlation = -1;
  int64_t start_ns = 0, end_ns = 0;
  int64_t stream = -1;
  int32_t device = -1;
  int64_t graph_node = -1;                     ///< Of a replayed graph.
  uint32_t name = 0;                           ///< String of the shard.
  int64_t call_start_ns = 0, call_end_ns = 0;  ///< Its launch, if known:
  int64_t thread = -1;  ///< -1: unknown, or launched as part of a graph.
};

/// When and where a host thread did something.
struct HostMoment {
  int64_t thread = -1;
  int64_t start_ns = 0, end_ns = 0;
};

struct ShardSurvey {
  std::map<int32_t, int64_t> kernels;  ///< By device.
  int64_t device_work = 0, calls = 0, collectives = 0, steps = 0, ranges = 0;
  int64_t largest_correlation = -1;
  std::unordered_map<int64_t, int64_t> external_of_correlation;
  std::unordered_map<int64_t, int64_t> external_of_node, original_of_node;
  std::unordered_map<int64_t, uint32_t> range_of_node;  ///< String.
  std::vector<NcclCall> nccl_calls;                     ///< By (start, id).
  std::vector<NcclKernel> nccl_kernels;  ///< By (launch or start, correlation).
  /// Nodes of graphs, as they were created (not cloned).
  std::unordered_map<int64_t, HostMoment> created_nodes;
  /// Calls of the host program that graphs captured, by correlation, and when
  /// its groups of calls ended.
  std::unordered_map<int64_t, HostMoment> captured_apis;
  std::unordered_map<int64_t, int64_t> group_ends;
  /// Communicator -> this process's rank in it and its size.
  std::map<std::string, std::pair<int64_t, int64_t>> communicators;

  /// What makes a process a rank's: work of a training, not of a launcher.
  bool has_training_work() const {
    return !kernels.empty() || device_work > 0 || collectives > 0 || steps > 0;
  }
  /// What the records of `nccl_calls` say, each distinct one once.
  std::unordered_map<uint64_t, NcclCallInfo> call_infos;

  const NcclCallInfo& info_of(const NcclCall& call) const {
    return call_infos.at(info_key(call.info, call.name));
  }
  static uint64_t info_key(uint32_t info, uint32_t name) {
    return uint64_t{info} << 32 | name;
  }
  /// What created a node of a graph: a unit or op (-1 unknown), within an NVTX
  /// range (string of the shard, 0 unknown). A clone leads to its original.
  int64_t external_of(int64_t graph_node) const;
  uint32_t range_of(int64_t graph_node) const;
  int64_t original_of(int64_t graph_node) const;
};

/// Errors: kIo.
Result<ShardSurvey> survey_shard(const ProcessShardContents& shard);

/// Fields that the text lacks stay at their defaults; `name` is the record's.
NcclCallInfo parse_nccl_call(std::string_view info, std::string_view name);

}  // namespace reprise
