#include "cli/interruptible_import.h"

#include <unistd.h>

#include <cstring>

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

}  // namespace reprise
