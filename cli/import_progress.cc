#include "cli/import_progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "cli/output.h"
#include "data/trace/trace_file.h"

namespace reprise {
namespace {

std::atomic<bool> cancel = false;
volatile std::sig_atomic_t interrupted = 0;
// The trace that is being written, for the signal handler; empty: none.
std::array<char, 4096> unfinished{};

extern "C" void stop_import(int number) {
  interrupted = number;
  cancel = true;
  if (unfinished[0] == '\0') return;
  ::unlink(unfinished.data());
  std::signal(number, SIG_DFL);
  std::raise(number);
}

}  // namespace

InterruptibleImport::InterruptibleImport() {
  struct sigaction action = {};
  action.sa_handler = stop_import;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], &action, &old_[i]);
  }
}

InterruptibleImport::~InterruptibleImport() {
  unfinished[0] = '\0';
  for (size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], &old_[i], nullptr);
  }
}

const std::atomic<bool>& InterruptibleImport::cancelled() const {
  return cancel;
}

int InterruptibleImport::signal() const { return interrupted; }

void InterruptibleImport::writes(const std::string& path) {
  const std::string name = unfinished_path(path);
  if (name.size() >= unfinished.size()) return;
  // The first byte last: the handler looks at it.
  std::memcpy(unfinished.data() + 1, name.data() + 1, name.size() - 1);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  unfinished[0] = name[0];
}

ProgressLine::ProgressLine() : terminal_(::isatty(STDERR_FILENO) == 1) {}

ProgressLine::~ProgressLine() {
  if (shown_) fmt::print(stderr, "\r\x1b[K");
}

void ProgressLine::show(const ImportProgress& progress) {
  const auto now = std::chrono::steady_clock::now();
  if (!terminal_ || now - last_ < std::chrono::milliseconds(100)) return;
  last_ = now;
  shown_ = true;
  constexpr double kWidth = 24;
  const double share =
      progress.bytes_total > 0
          ? std::clamp(static_cast<double>(progress.bytes_done) /
                           static_cast<double>(progress.bytes_total),
                       0.0, 1.0)
          : 0.0;
  fmt::print(stderr, "\r  reading [{:<24}] {}/{} files, {}\x1b[K",
             std::string(static_cast<size_t>(share * kWidth), '#'),
             progress.files_done, progress.files_total,
             bytes_text(static_cast<double>(progress.bytes_done)));
  std::fflush(stderr);
}

}  // namespace reprise
