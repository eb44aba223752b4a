// Runs a program under the injection library and reads what it recorded.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/profiler/process_shard_contents.h"

namespace reprise {

/// What wait gives of a program that ran to its end and was served as it asks.
inline constexpr int kStatus7 = 7 << 8;

using Variables = std::vector<std::pair<std::string, std::string>>;

/// A private directory for shards, and the programs that write them.
class HostProcesses {
 public:
  HostProcesses() {
    std::string name = testing::TempDir() + "injected.XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    directory_ = name;
  }
  ~HostProcesses() { std::filesystem::remove_all(directory_); }
  HostProcesses(const HostProcesses&) = delete;
  HostProcesses& operator=(const HostProcesses&) = delete;

  const std::filesystem::path& directory() const { return directory_; }

  /// Runs a command with more variables set; the status as wait gives it.
  int run(const std::vector<std::string>& command,
          const Variables& variables) const {
    const pid_t child = ::fork();
    if (child == 0) {
      for (const auto& [name, value] : variables) {
        ::setenv(name.c_str(), value.c_str(), 1);
      }
      std::vector<char*> arguments;
      for (const std::string& word : command) {
        arguments.push_back(const_cast<char*>(word.c_str()));
      }
      arguments.push_back(nullptr);
      ::execvp(arguments[0], arguments.data());
      ::_exit(126);
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    return status;
  }
  /// As `reprise profile` runs it: preloaded, and known to CUDA and NVTX.
  int run_injected(const std::vector<std::string>& command,
                   Variables more = {}) const {
    more.emplace_back("REPRISE_PROFILE_DIRECTORY", directory_.string());
    more.emplace_back("LD_PRELOAD", REPRISE_INJECT);
    more.emplace_back("CUDA_INJECTION64_PATH", REPRISE_INJECT);
    more.emplace_back("NVTX_INJECTION64_PATH", REPRISE_INJECT);
    return run(command, more);
  }

  std::map<std::string, StrictShardContents> shards() const {
    return read_shard_directory(directory_);
  }
  StrictShardContents only_shard() const {
    auto all = shards();
    EXPECT_EQ(all.size(), 1U);
    return all.empty() ? StrictShardContents() : all.begin()->second;
  }

 private:
  std::filesystem::path directory_;
};

}  // namespace reprise
