// The lifeline is a pipe that nobody writes to: its end says that the process
// which holds the other end is no more. As a subreaper (prctl(2)) the
// supervisor is the parent of all that the command orphans, so that what is
// below it in /proc is all there is on this host; a launcher's SIGTERM ends
// ranks on others.
#include "cli/supervisor.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>

#include "cli/command.h"
#include "cli/process.h"
#include "data/file.h"

namespace reprise {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kGrace{300}, kGraceOfLost{3000},
    kGraceOfChildless{5000}, kPollPeriod{50}, kUsualPeriod{500};
constexpr int kExitCannotStart = 127;

/// (process, its parent) of every process that runs.
std::map<pid_t, pid_t> parents() {
  std::map<pid_t, pid_t> parents;
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename().string();
    pid_t process = 0, parent = 0;
    std::from_chars(name.data(), name.data() + name.size(), process);
    if (process <= 0) continue;
    std::ifstream file(entry.path() / "stat");
    std::string stat;
    std::getline(file, stat);
    const size_t state = stat.rfind(") ");  // "123 (name) S 77 ..."
    if (state == std::string::npos || state + 4 > stat.size()) continue;
    if (stat[state + 2] == 'Z') continue;
    std::from_chars(stat.data() + state + 4, stat.data() + stat.size(), parent);
    parents[process] = parent;
  }
  return parents;
}

/// Kills what is below this process; returns whether there was anything.
bool kill_descendants() {
  const std::map<pid_t, pid_t> all = parents();
  bool found = false;
  for (const auto& [process, parent] : all) {
    pid_t above = parent;
    while (above > 1 && above != ::getpid()) {
      const auto next = all.find(above);
      above = next == all.end() ? 0 : next->second;
    }
    if (above != ::getpid()) continue;
    found = true;
    ::kill(process, SIGKILL);
  }
  return found;
}

/// Whether a process whose stat this is has ended, reaped or not.
bool has_ended(const std::string& process) {
  std::ifstream file("/proc/" + process + "/stat");
  std::string stat;
  std::getline(file, stat);
  const size_t state = stat.rfind(") ");
  return state == std::string::npos || state + 2 >= stat.size() ||
         stat[state + 2] == 'Z';
}

struct Children {
  bool live = false;
  std::string ended;  ///< Those that nobody has waited for: " 12 14".
};

/// None where the kernel does not list them.
Children children_of(pid_t process) {
  Children children;
  std::error_code error;
  const std::string threads = fmt::format("/proc/{}/task", process);
  for (const auto& thread :
       std::filesystem::directory_iterator(threads, error)) {
    std::ifstream list(thread.path() / "children");
    for (std::string child; list >> child;) {
      if (has_ended(child))
        children.ended += " " + child;
      else
        children.live = true;
    }
  }
  return children;
}

class Supervisor {
 public:
  Supervisor(int lifeline, const char* lost)
      : lifeline_(lifeline), lost_(lost) {
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    sigset_t watched;
    sigemptyset(&watched);
    for (const int signal :
         {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCHLD}) {
      sigaddset(&watched, signal);
    }
    ::sigprocmask(SIG_BLOCK, &watched, &before_);
    signals_ = ::signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
    ::fcntl(lifeline_, F_SETFD, FD_CLOEXEC);
  }

  bool start(char** command) {
    const std::filesystem::path program(command[0]);
    launches_ = program.filename().string().starts_with("mpirun");
    const pid_t self = ::getpid();
    child_ = ::fork();
    if (child_ != 0) return child_ > 0;
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    // Killed before that, it would have left the command alone.
    if (::getppid() != self) ::_exit(kExitCannotStart);
    ::sigprocmask(SIG_SETMASK, &before_, nullptr);
    ::execvp(command[0], command);
    ::_exit(kExitCannotStart);
  }

  /// Until the command has ended and nothing is left of it.
  int watch() {
    while (!status_) {
      pollfd events[] = {
          {.fd = signals_, .events = POLLIN, .revents = 0},
          {.fd = is_orphan_ ? -1 : lifeline_, .events = 0, .revents = 0}};
      const auto period = deadline_ ? kPollPeriod : kUsualPeriod;
      ::poll(events, 2, static_cast<int>(period.count()));
      if ((events[1].revents & (POLLHUP | POLLERR)) != 0) {
        is_orphan_ = true;
        ::kill(child_, SIGTERM);
        give_grace(kGrace);
      }
      if (!deadline_ && ::access(lost_, F_OK) == 0) give_grace(kGraceOfLost);
      if (!deadline_ && launches_) look_below_launcher();
      pass_signals();
      reap();
      if (deadline_ && Clock::now() >= *deadline_) kill_descendants();
    }
    while (kill_descendants()) {
      reap();
      ::usleep(2000);
    }
    if (WIFSIGNALED(*status_) && ::access(lost_, F_OK) == 0)
      return kExitEnvironment;
    return WIFSIGNALED(*status_) ? 128 + WTERMSIG(*status_)
                                 : WEXITSTATUS(*status_);
  }

  bool is_orphan() {
    pollfd event{.fd = lifeline_, .events = 0, .revents = 0};
    return is_orphan_ ||
           (::poll(&event, 1, 0) > 0 && (event.revents & POLLHUP) != 0);
  }

 private:
  void give_grace(Clock::duration grace) {
    const Clock::time_point end = Clock::now() + grace;
    deadline_ = std::min(deadline_.value_or(end), end);
  }

  void look_below_launcher() {
    const Children children = children_of(child_);
    started_ = started_ || children.live || !children.ended.empty();
    if (children.live || !started_) {
      childless_since_.reset();
      return;
    }
    if (!childless_since_) childless_since_ = Clock::now();
    if (Clock::now() - *childless_since_ < kGraceOfChildless) return;
    static_cast<void>(
        write_file_atomically(lost_, kLauncherStuck + children.ended));
    deadline_ = Clock::now();
  }

  void pass_signals() {
    signalfd_siginfo info;
    while (::read(signals_, &info, sizeof info) ==
           static_cast<ssize_t>(sizeof info)) {
      const int signal = static_cast<int>(info.ssi_signo);
      if (signal == SIGCHLD) continue;
      // A terminal's own the command has got itself.
      if (info.ssi_code != SI_KERNEL) ::kill(child_, signal);
      if (signal != SIGUSR1 && signal != SIGUSR2) give_grace(kGrace);
    }
  }

  void reap() {
    int status = 0;
    for (pid_t ended = 0; (ended = ::waitpid(-1, &status, WNOHANG)) > 0;) {
      if (ended == child_) status_ = status;
    }
  }

  int lifeline_, signals_ = -1;
  const char* lost_;
  pid_t child_ = 0;
  sigset_t before_{};
  bool is_orphan_ = false;
  bool launches_ = false, started_ = false;  // An mpirun; its first process.
  std::optional<int> status_;
  std::optional<Clock::time_point> deadline_, childless_since_;
};

}  // namespace

Result<int> run_supervised(
    const std::vector<std::string>& arguments,
    const std::vector<std::pair<std::string, std::string>>& environment,
    const std::string& folder, const std::string& lost, int* received) {
  int lifeline[2];
  if (::pipe2(lifeline, O_CLOEXEC) != 0)
    return fail(ErrorKind::kDevice, "no pipe: {}", std::strerror(errno));
  std::vector<std::string> words = {executable_directory() + "/reprise",
                                    kSupervisorWord,
                                    std::to_string(lifeline[0]), folder, lost};
  words.insert(words.end(), arguments.begin(), arguments.end());
  const Result<int> status =
      run_process(words, environment, received, lifeline[0]);
  ::close(lifeline[0]);
  ::close(lifeline[1]);
  if (!status) return pass(status.error());
  if (*status == kExitCannotStart)
    return fail(ErrorKind::kDevice, "cannot start {}", arguments[0]);
  return *status;
}

int supervise(int argc, char** argv) {
  int lifeline = -1;
  if (argc < 4) return kExitCannotStart;
  std::from_chars(argv[0], argv[0] + std::strlen(argv[0]), lifeline);
  // By hand, without a lifeline, nothing is started and no folder removed.
  struct stat of_lifeline {};
  if (::fstat(lifeline, &of_lifeline) != 0 || !S_ISFIFO(of_lifeline.st_mode))
    return kExitCannotStart;
  Supervisor supervisor(lifeline, argv[2]);
  if (!supervisor.start(argv + 3)) return kExitCannotStart;
  const int status = supervisor.watch();
  std::error_code ignored;
  if (supervisor.is_orphan()) std::filesystem::remove_all(argv[1], ignored);
  return status;
}

}  // namespace reprise
