// NCCL's calls, as its profiler plugin or the interposer recorded them, and the
// kernels that CUPTI recorded: which kernel ran which calls, and where a call
// without a kernel was on the host's clock.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/formats/process_shard_ranks.h"
#include "data/trace/trace.h"

namespace reprise {

/// A call by the places of its shard and of the call in the shard's survey.
struct NcclCallPlace {
  size_t shard = 0, call = 0;
  auto operator<=>(const NcclCallPlace&) const = default;
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

/// The GPU's own timer on the host's clock, for one process.
class GpuTimer {
 public:
  /// A start on both clocks.
  void add_pair(int64_t timer_ns, int64_t host_ns) {
    pairs_.emplace_back(timer_ns, host_ns - timer_ns);
  }
  /// At most so much, or at least so much, is host time minus timer.
  void add_upper_bound(int64_t offset_ns);
  void add_lower_bound(int64_t offset_ns);
  /// To be called once all is added.
  void finish();

  bool is_known() const { return !pairs_.empty() || upper_ns_ || lower_ns_; }
  bool by_kernels() const { return !pairs_.empty(); }
  /// By the nearest pair; else by the smallest recorded delay until the host
  /// saw an end; else by the smallest one until a call began on the device.
  int64_t host_ns(int64_t timer_ns) const;
  /// How far apart offsets of neighbouring pairs lie, or the two bounds; -1:
  /// unknown.
  int64_t residual_ns() const;

 private:
  std::vector<std::pair<int64_t, int64_t>> pairs_;  ///< Timer, offset.
  std::optional<int64_t> upper_ns_, lower_ns_;
};

/// The calls and kernels of one process.
class NcclPairing {
 public:
  NcclPairing(const std::vector<SurveyedShard>& shards,
              const RecordedProcess& process);

  /// Calls that the kernel ran; null: none is known.
  const std::vector<NcclCallPlace>* calls_of(size_t shard,
                                             int64_t correlation) const;
  bool has_kernel(NcclCallPlace call) const { return paired_.contains(call); }
  const GpuTimer& timer() const { return timer_; }
  int64_t kernels_without_calls() const { return kernels_without_calls_; }

 private:
  struct Unit;
  struct Launch;
  void pair(std::vector<Unit>& units, const std::vector<Launch>& launches);
  void learn_timer(const RecordedProcess& process);
  const NcclCall& call_at(NcclCallPlace place) const {
    return shards_[place.shard].survey.nccl_calls[place.call];
  }

  const std::vector<SurveyedShard>& shards_;
  std::map<std::pair<size_t, int64_t>, std::vector<NcclCallPlace>> of_kernel_;
  std::map<NcclCallPlace, int64_t> paired_;  ///< To its kernel's start.
  GpuTimer timer_;
  int64_t kernels_without_calls_ = 0;
};

/// Calls that ran as one, together.
NcclWork describe_calls(const std::vector<SurveyedShard>& shards,
                        const std::vector<NcclCallPlace>& calls,
                        const CommunicatorMembers& members);

}  // namespace reprise
