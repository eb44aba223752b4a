#include "tests/profiler/nccl/nccl_host.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <stdexcept>

namespace reprise {

ScratchDirectory::ScratchDirectory() {
  std::string path = std::filesystem::temp_directory_path() / "nccl.XXXXXX";
  if (::mkdtemp(path.data()) == nullptr) throw std::runtime_error("mkdtemp");
  path_ = path;
}

ScratchDirectory::~ScratchDirectory() { std::filesystem::remove_all(path_); }

int run_host(const std::filesystem::path& directory,
             const std::map<std::string, std::string>& environment,
             const std::function<int()>& host) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (directory.empty()) {
      ::unsetenv("REPRISE_PROFILE_DIRECTORY");
    } else {
      ::setenv("REPRISE_PROFILE_DIRECTORY", directory.c_str(), 1);
    }
    for (const auto& [name, text] : environment) {
      ::setenv(name.c_str(), text.c_str(), 1);
    }
    std::exit(host());
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  return status;
}

StrictShardContents only_shard(const std::filesystem::path& directory) {
  auto shards = read_shard_directory(directory);
  if (shards.size() != 1) throw std::runtime_error("not one shard");
  return shards.begin()->second;
}

}  // namespace reprise
