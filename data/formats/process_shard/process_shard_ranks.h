// Which of the processes that left shards are ranks of the trace, and what the
// others are to them: launchers, shells and data workers are no ranks.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "data/formats/process_shard/process_shard_contents.h"
#include "data/formats/process_shard/process_shard_survey.h"

namespace reprise {

/// The last part of a path.
inline std::string base_name(const std::string& path) {
  return path.substr(path.find_last_of('/') + 1);
}

/// One shard, surveyed.
struct SurveyedShard {
  std::string path;
  ProcessShardContents contents;
  ShardSurvey survey;
};

/// One process with all its shards: several sources, and several images where
/// it ran exec.
struct RecordedProcess {
  ProcessIdentity identity;    ///< Of its last image.
  std::vector<size_t> shards;  ///< Places among the surveyed, in their order.
  std::map<int32_t, int64_t> kernels;  ///< By device.
  int64_t records = 0;
  bool has_training_work = false;
  /// Communicator -> its rank in it, and the size.
  std::map<std::string, std::pair<int64_t, int64_t>> communicators;
  /// Place in RankedProcesses::ranks; -1: no rank's.
  int32_t rank = -1;
  bool is_main = false;  ///< The rank itself; others are only related to it.

  /// "HOST PID PROGRAM", for messages.
  std::string name() const;
};

/// A rank of the job; of a process that runs kernels on several devices, one a
/// device.
struct JobRank {
  size_t process = 0;            ///< Place of the main one.
  std::vector<int32_t> devices;  ///< Each a rank; empty: one without kernels.
  uint32_t first_number = 0;     ///< Of the trace; then one after another.
};

struct RankedProcesses {
  std::vector<RecordedProcess> processes;  ///< By host, start, id.
  std::vector<JobRank> ranks;              ///< By number.
  /// What was decided without certainty, in whole sentences.
  std::vector<std::string> notes;
};

/// Ranks are the processes whose launcher numbered them (of several with one
/// number, the one that trained); without numbers those that trained, numbered
/// by NCCL's largest communicator, else by start; else the process that
/// recorded most. Related processes belong to the rank from which they were
/// started, or which alone they started.
RankedProcesses rank_processes(const std::vector<SurveyedShard>& shards);

}  // namespace reprise
