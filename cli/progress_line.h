// The bar of long work: one line on a terminal that is written over and erased
// at the end; nothing in pipes, in CI, or on a terminal that cannot erase.
#pragma once

#include <chrono>
#include <string>

#include "data/progress.h"

namespace reprise {

/// The line, below `columns` wide: what, bar, share, rate, time left, of which
/// the last ones go where there is no room. Plain ASCII, no colours.
std::string progress_text(const WorkProgress& progress,
                          std::chrono::nanoseconds elapsed, size_t columns);

/// Shows work on stderr where that is a terminal other than TERM=dumb and CI is
/// not set. While it lives nothing else is told, but by other processes.
class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine() { erase(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// Draws at most ten times a second, at once when `what` is something else,
  /// of which nothing was done yet: rate and time left count from there.
  void show(const WorkProgress& progress);
  void erase();
  /// Whether anything is shown here.
  bool is_shown() const { return terminal_; }
  /// Shows what it gets on this line, which outlives it.
  ProgressWatcher watcher();

 private:
  using Clock = std::chrono::steady_clock;

  bool terminal_ = false;
  bool shown_ = false;
  std::string what_;
  Clock::time_point begin_{}, last_{};
};

}  // namespace reprise
