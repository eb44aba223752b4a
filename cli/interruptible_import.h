// How an import that lasts ends early.
#pragma once

#include <signal.h>

#include <array>
#include <atomic>
#include <csignal>
#include <string>

namespace reprise {

/// While it lives, the first SIGINT, SIGTERM or SIGHUP ends the import with
/// nothing half-written, and the second one the process. One at a time.
class InterruptibleImport {
 public:
  InterruptibleImport();
  InterruptibleImport(const InterruptibleImport&) = delete;
  InterruptibleImport& operator=(const InterruptibleImport&) = delete;
  ~InterruptibleImport();

  /// Set by the first signal; its number, 0 before.
  const std::atomic<bool>& cancelled() const;
  int signal() const;
  /// From now on the unfinished trace of `path` goes with a signal.
  void writes(const std::string& path);

 private:
  static constexpr std::array<int, 3> kSignals = {SIGINT, SIGTERM, SIGHUP};
  std::array<struct sigaction, kSignals.size()> old_{};
};

}  // namespace reprise
