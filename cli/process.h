// Child processes: started from an argument vector, never through a shell.
#pragma once

#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include "data/result.h"

namespace reprise {

/// Runs `arguments` to its end; SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1 and
/// SIGUSR2 that somebody sends to this process meanwhile are passed on to it
/// (those of a terminal it gets itself), the last one noted in `received` (else
/// 0). It keeps the descriptor `inherited`. Returns its exit status, 128+N when
/// a signal ended it. Errors: kDevice when it cannot be started.
Result<int> run_process(
    const std::vector<std::string>& arguments,
    const std::vector<std::pair<std::string, std::string>>& environment = {},
    int* received = nullptr, int inherited = -1);

/// While it lives, SIGINT, SIGTERM and SIGHUP wait: what is being written gets
/// whole, or is removed. Threads started meanwhile inherit that.
class HeldSignals {
 public:
  HeldSignals();
  ~HeldSignals();
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

 private:
  sigset_t before_{};
};

/// Full path of a program in PATH, or empty.
std::string find_program(const std::string& name);

/// Directory of this executable.
std::string executable_directory();

/// A private directory that is removed, with its files, at the end of its
/// scope.
class TemporaryDirectory {
 public:
  /// Below `base`, or TMPDIR where that is empty. Errors: kIo.
  static Result<TemporaryDirectory> create(const std::string& base = {});
  /// One that is there.
  explicit TemporaryDirectory(std::string path) : path_(std::move(path)) {}
  TemporaryDirectory(TemporaryDirectory&& other) noexcept;
  TemporaryDirectory& operator=(TemporaryDirectory&&) = delete;
  ~TemporaryDirectory();
  const std::string& path() const { return path_; }
  void stay() { stays_ = true; }  ///< It is not removed after all.

 private:
  std::string path_;
  bool stays_ = false;
};

}  // namespace reprise
