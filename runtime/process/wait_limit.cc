#include "runtime/process/wait_limit.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <string>

#include "data/file.h"

namespace reprise {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& path) {
  return read_file(path.string()).value_or("");
}

// "123 (a name) T 77 ...": the state and the parent.
bool is_stopped_child_of(const std::string& stat, pid_t parent) {
  const size_t name = stat.rfind(") ");
  if (name == std::string::npos || name + 4 > stat.size()) return false;
  const char state = stat[name + 2];
  pid_t found = 0;
  const char* const begin = stat.data() + name + 4;
  std::from_chars(begin, stat.data() + stat.size(), found);
  return (state == 'T' || state == 't') && found == parent;
}

int rank_in(const std::string& environment) {
  const std::string name("\0OMPI_COMM_WORLD_RANK=", 22);
  const size_t at = environment.find(name);
  int rank = -1;
  if (at != std::string::npos) {
    std::from_chars(environment.data() + at + name.size(),
                    environment.data() + environment.size(), rank);
  }
  return rank;
}

}  // namespace

WaitLimit::WaitLimit(double seconds, std::function<void()> expired)
    : thread_([this, seconds, expired = std::move(expired)] {
        std::unique_lock lock(mutex_);
        if (!wake_.wait_for(lock, std::chrono::duration<double>(seconds),
                            [this] { return ended_; })) {
          expired();
        }
      }) {}

WaitLimit::~WaitLimit() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

std::vector<int> stopped_ranks_here() {
  std::vector<int> ranks;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    if (!is_stopped_child_of(text_of(entry.path() / "stat"), ::getppid()))
      continue;
    const int rank = rank_in(text_of(entry.path() / "environ"));
    if (rank >= 0) ranks.push_back(rank);
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

}  // namespace reprise
