// The ranks of an Nsight Systems export: one a process and device on which the
// process ran kernels. Also which rank a row belongs to, and its streams.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "data/formats/nsys/nsys_database.h"
#include "data/trace/trace_spool.h"

namespace reprise {

/// A process of the machine: globalPid >> 24, globalTid >> 24.
using NsysProcess = int64_t;
inline NsysProcess process_of(int64_t global_id) { return global_id >> 24; }
inline int64_t pid_of(NsysProcess process) { return process & 0xffffff; }

class NsysRanks {
 public:
  explicit NsysRanks(TraceSpool& spool) : spool_(spool) {}

  /// Walks the tables of device work and adds the ranks to the spool, by
  /// (process, device). A device where a process only copied belongs to the
  /// process's first rank. Without device work, each process with calls of the
  /// runtime is a rank.
  void find(NsysDatabase& database);

  size_t count() const { return ranks_.size(); }
  std::optional<uint32_t> rank_of(NsysProcess process, int64_t device) const;
  /// Of a row of the host: the rank whose device did the work of that
  /// correlation, else the one that its thread launches on, else the process's
  /// first; empty when it has no rank.
  std::optional<uint32_t> rank_of_call(int64_t global_tid,
                                       int64_t correlation) const;
  /// Of a process with several ranks: that on which alone the thread launched.
  std::optional<uint32_t> rank_of_thread(int64_t global_tid) const;
  /// Local ranks of a process, ascending; empty when it has none.
  const std::vector<uint32_t>& ranks_of(NsysProcess process) const;
  /// The device of a context, when its work or its process tells.
  std::optional<int64_t> device_of(NsysProcess process, int64_t context) const;
  NsysProcess process(uint32_t rank) const { return ranks_[rank].process; }
  int64_t device(uint32_t rank) const { return ranks_[rank].device; }

  uint32_t device_stream(uint32_t rank, int64_t device, int64_t stream);
  uint32_t host_thread(uint32_t rank, int64_t global_tid,
                       NsysDatabase& database);

 private:
  struct Rank {
    NsysProcess process = 0;
    int64_t device = -1;
  };
  using DeviceKey = std::pair<NsysProcess, int64_t>;

  void walk(NsysDatabase& database, std::string_view table, bool kernels);
  void add_rank(const DeviceKey& key);
  void add_ranks();
  void find_correlations(NsysDatabase& database);
  std::optional<uint32_t> rank_of_work(NsysProcess process,
                                       int64_t correlation) const;
  void find_threads(NsysDatabase& database);
  void find_thread_names(NsysDatabase& database);

  TraceSpool& spool_;
  std::vector<Rank> ranks_;
  std::map<DeviceKey, bool> devices_;  ///< Whether it ran kernels.
  std::map<DeviceKey, uint32_t> rank_of_device_;
  std::map<NsysProcess, std::vector<uint32_t>> ranks_of_process_;
  std::map<DeviceKey, int64_t> device_of_context_;  ///< By (process, context).
  /// Only of processes with several ranks; sorted.
  std::map<NsysProcess, std::vector<std::pair<int64_t, uint32_t>>>
      correlations_;
  std::map<int64_t, uint32_t> rank_of_thread_;  ///< By globalTid.
  std::map<int64_t, int64_t> thread_names_;     ///< globalTid -> StringIds.
  bool thread_names_read_ = false;
  std::map<std::pair<uint32_t, std::pair<int64_t, int64_t>>, uint32_t>
      device_streams_;
  std::map<std::pair<uint32_t, int64_t>, uint32_t> host_threads_;
};

}  // namespace reprise
