// A recorded rank in the spool: its ranks (one a device), streams and steps, to
// which the shards of its processes add one after the other.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "data/formats/nvtx_ranges.h"
#include "data/formats/process_shard/process_shard_ranks.h"
#include "data/trace/trace_spool.h"

namespace reprise {

class RankImport {
 public:
  /// Adds the ranks, one or one a device, to the spool.
  RankImport(TraceSpool& spool, const JobRank& rank,
             const RecordedProcess& main);

  uint32_t local_of_device(int32_t device) const;
  int32_t first_device() const {
    return rank_.devices.empty() ? -1 : rank_.devices.front();
  }
  uint32_t first_local() const { return first_local_; }
  uint32_t local_count() const { return local_count_; }
  uint32_t host_stream(uint32_t local, const RecordedProcess& process,
                       int64_t thread);
  uint32_t device_stream(uint32_t local, const RecordedProcess& process,
                         int32_t device, int64_t number);
  /// Ranges that one thread starts and any ends: they need not nest.
  uint32_t range_stream(uint32_t local, const RecordedProcess& process);
  /// NCCL's work whose kernel is not known.
  uint32_t communication_stream(uint32_t local);

  /// Added to the correlations of the next shard, so that those of several
  /// processes and images stay apart.
  int64_t correlation_base() const { return correlation_base_; }
  void take_correlations(int64_t largest) { correlation_base_ += largest + 1; }

  void add_step(const StepMark& mark);
  void add_step_range(StepRange range) {
    step_ranges_.push_back(std::move(range));
  }
  /// Steps as marked, else as ranges number them. Returns how many.
  int64_t finish_steps();

 private:
  TraceSpool& spool_;
  JobRank rank_;
  uint32_t first_local_ = 0, local_count_ = 1;
  int64_t main_process_ = 0, correlation_base_ = 0;
  std::map<std::tuple<uint32_t, int64_t, int64_t>, uint32_t> threads_;
  std::map<std::tuple<uint32_t, int64_t, int32_t, int64_t>, uint32_t> streams_;
  std::map<std::pair<uint32_t, int64_t>, uint32_t> ranges_;
  std::map<uint32_t, uint32_t> communication_;
  std::map<int64_t, StepMark> marks_;  ///< By number.
  std::vector<StepRange> step_ranges_;
};

}  // namespace reprise
