// What every process of a profiled command finds in its environment, so that
// the libraries beside this program are loaded into it.
#pragma once

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "data/result.h"

namespace reprise {

/// Where processes leave their shards; without it no library does anything.
inline constexpr const char* kProfileDirectory = "REPRISE_PROFILE_DIRECTORY";
/// All that a process may find set.
inline constexpr std::array kProfileVariables = {
    kProfileDirectory,       "REPRISE_PROFILE_STEPS", "CUDA_INJECTION64_PATH",
    "NVTX_INJECTION64_PATH", "NCCL_PROFILER_PLUGIN",  "LD_PRELOAD"};

struct ProfileSetup {
  std::string directory;   ///< Of shards; absolute.
  std::string steps = {};  ///< "A:B", or "" for all.
  bool nccl_preload = false;
};

struct ProfileEnvironment {
  /// To be set for the command.
  std::vector<std::pair<std::string, std::string>> variables;
  /// What of the user's own had to give way, in whole sentences.
  std::vector<std::string> notes;
};

/// libreprise_inject.so and the like: beside this program's directory, in lib.
std::string profile_library(const std::string& name);

/// For a command started as `arguments`: Open MPI's mpirun passes these on to
/// the ranks of other hosts by a variable of its own.
/// Errors: kDevice when a library is missing.
Result<ProfileEnvironment> profile_environment(
    const ProfileSetup& setup, const std::vector<std::string>& arguments);

/// Processes whose environment has `directory` for their shards, as "NAME
/// (NUMBER)" in order of their numbers; those of other users are not seen.
std::vector<std::string> processes_recording_to(const std::string& directory);

}  // namespace reprise
