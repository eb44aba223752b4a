// What the processes of a profiled command left in a directory: shards of
// processes, and for each run of our trainer a directory of its own with its
// ranks' shards and trainer.json, so that a command may train several times.
#pragma once

#include <string>
#include <vector>

#include "data/result.h"

namespace reprise {

/// One run of reprise-train on all its ranks.
struct TrainerRun {
  std::string name;                 ///< Of its directory; "" where it has none.
  std::string context;              ///< Path of trainer.json, "" without.
  std::vector<std::string> shards;  ///< Of its ranks, sorted.
};

/// What there is to gather.
struct ProfileFiles {
  std::vector<std::string> processes;  ///< Process shards.
  std::vector<TrainerRun> trainers;    ///< By start; of several hosts, joined.
};

/// In the directory and all below it (of several hosts, say), sorted.
/// Errors: kIo.
Result<ProfileFiles> find_profile_files(const std::string& directory);

/// Whether there is a trainer.json in the directory or below it.
bool holds_trainer(const std::string& directory);

}  // namespace reprise
