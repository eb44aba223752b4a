#include "data/memory_limit.h"

#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

namespace reprise {
namespace {

constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max() / 4;

uint64_t available_to_system() {
  std::ifstream file("/proc/meminfo");
  for (std::string word; file >> word;) {
    uint64_t kilobytes = 0;
    if (word == "MemAvailable:" && file >> kilobytes) return kilobytes << 10;
  }
  return kNoLimit;
}

// The first number of a file; "max" and no file are no number.
uint64_t number_in(const char* path) {
  std::ifstream file(path);
  uint64_t number = 0;
  return file >> number ? number : kNoLimit;
}

uint64_t left_of_addresses() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return kNoLimit;
  return limit.rlim_cur;
}

}  // namespace

uint64_t memory_limit_bytes() {
  // What the group uses already is mostly cache, which it gives back.
  return std::min({available_to_system(),
                   number_in("/sys/fs/cgroup/memory.max"),
                   left_of_addresses()});
}

}  // namespace reprise
