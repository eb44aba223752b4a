// posix_spawn with the signals and descriptors that this program was started
// with. Signals are blocked until there is a child to pass them on to, so none
// is lost in between.
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

constexpr std::array<int, 6> kForwarded = {SIGINT,  SIGTERM, SIGHUP,
                                           SIGQUIT, SIGUSR1, SIGUSR2};

std::atomic<pid_t> child_to_signal{0};
std::atomic<int> last_signal{0};

// What a terminal sends (Ctrl-C), it sends to the child as well: twice would
// mean something else to it.
void forward_signal(int signal, siginfo_t* sender, void*) {
  last_signal = signal;
  const pid_t child = child_to_signal.load();
  if (child > 0 && sender->si_code != SI_KERNEL) ::kill(child, signal);
}

// Forwards signals to one child for as long as it lives. Those that come before
// there is one wait for `start`.
class SignalForwarding {
 public:
  SignalForwarding() {
    sigset_t forwarded;
    sigemptyset(&forwarded);
    for (const int signal : kForwarded) sigaddset(&forwarded, signal);
    ::pthread_sigmask(SIG_BLOCK, &forwarded, &unblocked_);
    struct sigaction action {};
    action.sa_sigaction = forward_signal;
    action.sa_flags = SA_SIGINFO;
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < kForwarded.size(); ++i) {
      ::sigaction(kForwarded[i], nullptr, &previous_[i]);
      // What nohup or a shell had ignored stays so, for the child too.
      if (previous_[i].sa_handler == SIG_IGN) continue;
      ::sigaction(kForwarded[i], &action, nullptr);
    }
  }
  ~SignalForwarding() {
    start(0);
    for (size_t i = 0; i < kForwarded.size(); ++i) {
      ::sigaction(kForwarded[i], &previous_[i], nullptr);
    }
  }
  void start(pid_t child) {
    child_to_signal = child;
    ::pthread_sigmask(SIG_SETMASK, &unblocked_, nullptr);
  }
  /// What this process had not blocked.
  const sigset_t& unblocked() const { return unblocked_; }
  SignalForwarding(const SignalForwarding&) = delete;
  SignalForwarding& operator=(const SignalForwarding&) = delete;

 private:
  std::array<struct sigaction, kForwarded.size()> previous_{};
  sigset_t unblocked_{};
};

// A child starts with the signals that this process was started with: our own
// choices (main ignores SIGXFSZ) are not for it.
class SpawnAttributes {
 public:
  explicit SpawnAttributes(const sigset_t& mask) {
    sigset_t defaults;
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGXFSZ);
    ::posix_spawnattr_init(&attributes_);
    ::posix_spawnattr_setsigmask(&attributes_, &mask);
    ::posix_spawnattr_setsigdefault(&attributes_, &defaults);
    ::posix_spawnattr_setflags(
        &attributes_,
        static_cast<short>(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF));
  }
  ~SpawnAttributes() { ::posix_spawnattr_destroy(&attributes_); }
  SpawnAttributes(const SpawnAttributes&) = delete;
  SpawnAttributes& operator=(const SpawnAttributes&) = delete;
  const posix_spawnattr_t* get() const { return &attributes_; }

 private:
  posix_spawnattr_t attributes_{};
};

// One descriptor that stays open in the child: duplicated onto itself, it loses
// its close-on-exec flag there.
class KeptDescriptor {
 public:
  explicit KeptDescriptor(int descriptor) {
    ::posix_spawn_file_actions_init(&actions_);
    if (descriptor >= 0)
      ::posix_spawn_file_actions_adddup2(&actions_, descriptor, descriptor);
  }
  ~KeptDescriptor() { ::posix_spawn_file_actions_destroy(&actions_); }
  KeptDescriptor(const KeptDescriptor&) = delete;
  KeptDescriptor& operator=(const KeptDescriptor&) = delete;
  const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_{};
};

std::vector<std::string> merged_environment(
    const std::vector<std::pair<std::string, std::string>>& extra) {
  std::vector<std::string> merged;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    bool replaced = false;
    for (const auto& [name, value] : extra)
      replaced |= text.substr(0, text.find('=')) == name;
    if (!replaced) merged.push_back(text);
  }
  for (const auto& [name, value] : extra) {
    merged.emplace_back(name).append("=").append(value);
  }
  return merged;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  result.reserve(texts.size() + 1);
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

/// Errors: kDevice.
Result<pid_t> spawn(const std::vector<std::string>& arguments,
                    std::vector<std::string> environment,
                    const sigset_t& unblocked, int inherited) {
  const SpawnAttributes attributes(unblocked);
  const KeptDescriptor kept(inherited);
  std::vector<std::string> words = arguments;
  pid_t child = 0;
  const auto start = [&] {
    return ::posix_spawnp(&child, words[0].c_str(), kept.get(),
                          attributes.get(), pointers(words).data(),
                          pointers(environment).data());
  };
  int error = start();
  if (error == ENOEXEC) {  // A script without "#!": as execvp and shells do.
    const bool is_path = arguments[0].find('/') != std::string::npos;
    words[0] = is_path ? arguments[0] : find_program(arguments[0]);
    words.insert(words.begin(), "/bin/sh");
    error = start();
  }
  if (error == 0) return child;
  const bool is_there =
      error == ENOENT && ::access(arguments[0].c_str(), X_OK) == 0;
  return fail(ErrorKind::kDevice, "cannot start {}: {}", arguments[0],
              is_there ? "the interpreter or loader that it names is missing"
                       : std::strerror(error));
}

}  // namespace

Result<int> run_process(
    const std::vector<std::string>& arguments,
    const std::vector<std::pair<std::string, std::string>>& environment,
    int* received, int inherited) {
  last_signal = 0;
  SignalForwarding forwarding;
  const Result<pid_t> child = spawn(arguments, merged_environment(environment),
                                    forwarding.unblocked(), inherited);
  if (!child) return pass(child.error());
  forwarding.start(*child);
  int status = 0;
  while (::waitpid(*child, &status, 0) < 0) {
    if (errno != EINTR) {
      return fail(ErrorKind::kDevice, "lost {}: {}", arguments[0],
                  std::strerror(errno));
    }
  }
  if (received != nullptr) *received = last_signal;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

HeldSignals::HeldSignals() {
  sigset_t held;
  sigemptyset(&held);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&held, signal);
  ::pthread_sigmask(SIG_BLOCK, &held, &before_);
}

HeldSignals::~HeldSignals() {
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

std::string find_program(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::string rest = path == nullptr ? "/usr/bin:/bin" : path;
  while (!rest.empty()) {
    const size_t colon = rest.find(':');
    std::string candidate = rest.substr(0, colon) + "/" + name;
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

Result<TemporaryDirectory> TemporaryDirectory::create(const std::string& base) {
  const char* const usual = std::getenv("TMPDIR");
  std::string pattern = !base.empty()      ? base
                        : usual != nullptr ? usual
                                           : "/tmp";
  pattern += "/reprise.XXXXXX";
  if (::mkdtemp(pattern.data()) == nullptr) {
    return fail(ErrorKind::kIo, "cannot make a directory like {}: {}", pattern,
                std::strerror(errno));
  }
  return TemporaryDirectory(pattern);
}

TemporaryDirectory::TemporaryDirectory(TemporaryDirectory&& other) noexcept
    : path_(std::move(other.path_)), stays_(other.stays_) {
  other.path_.clear();
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  if (!path_.empty() && !stays_) {
    std::filesystem::remove_all(path_, ignored);
  }
}

}  // namespace reprise
