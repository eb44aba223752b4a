// NCCL's calls, as its profiler plugin or the interposer recorded them, in the
// words of the trace: what a kernel communicated that ran one call or several.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "data/formats/process_shard/process_shard_ranks.h"
#include "data/trace/trace.h"

namespace reprise {

/// A call by the places of its shard and of the call in the shard's survey.
struct NcclCallPlace {
  size_t shard = 0, call = 0;
  auto operator<=>(const NcclCallPlace&) const = default;
};

/// What one kernel of NCCL's ran.
struct NcclKernelRun {
  std::vector<NcclCallPlace> calls;
  /// Which of the recorded launches of a CUDA graph this was; -1: no graph.
  int64_t replay = -1;
  /// The calls were recorded once, as the graph captured them.
  bool is_shared = false;
};

/// What an event of one kernel, or of one call, says of its communication.
struct NcclWork {
  CollectiveInfo info;
  int64_t bytes = 0, sequence = -1;
  std::string attributes;  ///< JSON object, or "".
};

/// Global ranks of communicators, as far as all members left a shard.
class CommunicatorMembers {
 public:
  explicit CommunicatorMembers(const RankedProcesses& ranked);
  /// By rank in the communicator; empty: not all are known.
  const std::vector<uint32_t>& of(const std::string& communicator) const;

 private:
  std::map<std::string, std::vector<uint32_t>> members_;
};

/// Calls that ran as one, together. Of replay k of a graph the sequence is
/// (k + 1) * 2^32 and the captured call's own.
NcclWork describe_calls(const std::vector<SurveyedShard>& shards,
                        const NcclKernelRun& run,
                        const CommunicatorMembers& members);

}  // namespace reprise
