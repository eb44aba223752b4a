#include "runtime/train/run_directory.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <vector>

#include "profiler/trainer_context.h"

namespace reprise {
namespace {

/// Names of later runs sort after those of earlier ones.
std::string new_run_name() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return fmt::format(
      "{}{}.{}.{}", kRunDirectoryPrefix,
      std::chrono::duration_cast<std::chrono::milliseconds>(now).count(),
      host.data(), ::getpid());
}

bool make_directory(const std::string& path) {
  return ::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST;
}

}  // namespace

Result<std::string> make_run_directory(const std::string& base,
                                       ProcessGroup& group) {
  std::string own;
  if (group.rank() == 0 && !base.empty()) {
    own = new_run_name();
    if (!make_directory(base + "/" + own)) own.clear();
  }
  const Result<std::vector<std::string>> names = group.all_gather(own);
  if (!names) return pass(names.error());
  const std::string& name = names->front();
  if (name.empty() || base.empty() || !make_directory(base + "/" + name)) {
    return std::string();
  }
  return base + "/" + name;
}

}  // namespace reprise
