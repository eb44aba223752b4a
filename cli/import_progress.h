// What an import that lasts shows, and how it ends early.
#pragma once

#include <signal.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <string>

#include "data/import/import.h"

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

/// One line on a terminal that is written over; nothing elsewhere.
class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  void show(const ImportProgress& progress);

 private:
  bool terminal_ = false;
  bool shown_ = false;
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace reprise
