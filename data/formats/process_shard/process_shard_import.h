// Records of process shards as events of a spool.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "data/formats/nvtx_ranges.h"
#include "data/formats/process_shard/process_shard_pairing.h"
#include "data/formats/process_shard/process_shard_rank.h"
#include "data/formats/process_shard/process_shard_ranks.h"
#include "data/formats/reader.h"
#include "data/trace/trace_spool.h"

namespace reprise {

/// One shard of a rank.
class ProcessShardImport {
 public:
  ProcessShardImport(const std::vector<SurveyedShard>& shards, size_t place,
                     const RecordedProcess& process, const NcclPairing& nccl,
                     const CommunicatorMembers& members, RankImport& rank,
                     TraceSpool& spool, FileReport& report);

  /// Errors: kIo.
  Status run();

 private:
  /// What a range's name tells, once a name.
  struct RangeName {
    StringId name{};
    EventKind kind = EventKind::kAnnotation;
    int64_t external_id = -1;
    int32_t detail = -1, attributes = -1;
    std::optional<StepRange> step;
  };
  struct KernelName {
    bool is_collective = false;
    int32_t detail = -1;
  };
  struct Waited {
    SynchronizationInfo info;
    std::string name;
  };

  void take(const ProcessRecord& record);
  bool start_event(const ProcessRecord& record, Event& event);
  void add_device_work(const ProcessRecord& record, EventKind kind);
  void add_kernel(const ProcessRecord& record);
  void add_host(const ProcessRecord& record, EventKind kind);
  void add_range(const ProcessRecord& record);
  void add_synchronization(const ProcessRecord& record);
  void add_step(const ProcessRecord& record);
  void add_calls();
  void add_call(NcclCallPlace place);
  void add_timed_call(NcclCallPlace place, const NcclWork& work);
  void add(const Event& event);
  void set_work(const NcclWork& work, Event& event);

  Status learn_devices();
  uint32_t local_of_correlation(int64_t correlation) const;
  int64_t correlation_of(int64_t recorded) const;
  int64_t external_of(const ProcessRecord& record) const;
  StringId string_of(uint32_t id, std::string_view fallback);
  int32_t text_attribute(uint32_t id);
  void set_origin(const ProcessRecord& record, Event& event);
  const RangeName& range_name(const ProcessRecord& record);
  const KernelName& kernel_name(uint32_t id);

  const std::vector<SurveyedShard>& shards_;
  size_t place_;
  const SurveyedShard& shard_;
  const RecordedProcess& process_;
  const NcclPairing& nccl_;
  const CommunicatorMembers& members_;
  RankImport& rank_;
  TraceSpool& spool_;
  FileReport& report_;
  std::vector<StringId> strings_;  ///< By the shard's id, where known:
  std::vector<uint8_t> has_string_;
  std::unordered_map<uint64_t, RangeName> range_names_;
  std::unordered_map<uint32_t, KernelName> kernel_names_;
  std::unordered_map<int64_t, uint32_t> local_of_correlation_;
  int64_t graph_collectives_ = 0, calls_alone_ = 0;
};

}  // namespace reprise
