#include "cli/process.h"

#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace reprise {
namespace {

constexpr std::array<int, 3> kForwarded = {SIGINT, SIGTERM, SIGHUP};

std::atomic<pid_t> child_to_signal{0};

void forward_signal(int signal) {
  const pid_t child = child_to_signal.load();
  if (child > 0) ::kill(child, signal);
}

// Forwards signals to one child for as long as it lives.
class SignalForwarding {
 public:
  SignalForwarding() {
    struct sigaction action {};
    action.sa_handler = forward_signal;
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < kForwarded.size(); ++i) {
      ::sigaction(kForwarded[i], &action, &previous_[i]);
    }
  }
  ~SignalForwarding() {
    for (size_t i = 0; i < kForwarded.size(); ++i) {
      ::sigaction(kForwarded[i], &previous_[i], nullptr);
    }
    child_to_signal = 0;
  }
  SignalForwarding(const SignalForwarding&) = delete;
  SignalForwarding& operator=(const SignalForwarding&) = delete;

 private:
  std::array<struct sigaction, kForwarded.size()> previous_{};
};

std::vector<std::string> merged_environment(
    const std::vector<std::pair<std::string, std::string>>& extra) {
  std::vector<std::string> merged;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    bool replaced = false;
    for (const auto& [name, value] : extra)
      replaced |= text.rfind(name + "=", 0) == 0;
    if (!replaced) merged.push_back(text);
  }
  for (const auto& [name, value] : extra) merged.push_back(name + "=" + value);
  return merged;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

}  // namespace

Result<int> run_process(
    const std::vector<std::string>& arguments,
    const std::vector<std::pair<std::string, std::string>>& environment) {
  std::vector<std::string> argument_texts = arguments;
  std::vector<std::string> environment_texts = merged_environment(environment);
  const SignalForwarding forwarding;
  pid_t child = 0;
  const int error = ::posix_spawnp(&child, arguments[0].c_str(), nullptr,
                                   nullptr, pointers(argument_texts).data(),
                                   pointers(environment_texts).data());
  if (error != 0) {
    return fail(ErrorKind::kDevice, "cannot start {}: {}", arguments[0],
                std::strerror(error));
  }
  child_to_signal = child;
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) {
      return fail(ErrorKind::kDevice, "lost {}: {}", arguments[0],
                  std::strerror(errno));
    }
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

std::string find_program(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::string rest = path == nullptr ? "/usr/bin:/bin" : path;
  while (!rest.empty()) {
    const size_t colon = rest.find(':');
    const std::string candidate = rest.substr(0, colon) + "/" + name;
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
    rest = colon == std::string::npos ? "" : rest.substr(colon + 1);
  }
  return "";
}

std::string executable_directory() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error)
      .parent_path()
      .string();
}

Result<TemporaryDirectory> TemporaryDirectory::create() {
  const char* base = std::getenv("TMPDIR");
  std::string pattern =
      std::string(base == nullptr ? "/tmp" : base) + "/reprise.XXXXXX";
  if (::mkdtemp(pattern.data()) == nullptr) {
    return fail(ErrorKind::kIo, "cannot make a directory like {}: {}", pattern,
                std::strerror(errno));
  }
  return TemporaryDirectory(pattern);
}

TemporaryDirectory::TemporaryDirectory(TemporaryDirectory&& other) noexcept
    : path_(std::move(other.path_)) {
  other.path_.clear();
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

}  // namespace reprise
