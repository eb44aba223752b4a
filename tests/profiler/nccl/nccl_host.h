// Runs part of a test in a process of its own, which ends as a host program
// does, and reads the shards that it left.
#pragma once

#include <sys/mman.h>

#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include "tests/profiler/process_shard_contents.h"

namespace reprise {

/// A directory that is gone with this value.
class ScratchDirectory {
 public:
  ScratchDirectory();
  ~ScratchDirectory();
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Zeros that parent and child both see; T is trivial.
template <typename T>
T* shared_with_child() {
  void* memory = ::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<T*>(memory);
}

/// Runs `host` in a child whose REPRISE_PROFILE_DIRECTORY is `directory` (none
/// if empty), with further variables. Returns its wait status.
int run_host(const std::filesystem::path& directory,
             const std::map<std::string, std::string>& environment,
             const std::function<int()>& host);

/// The only shard of a directory.
StrictShardContents only_shard(const std::filesystem::path& directory);

}  // namespace reprise
