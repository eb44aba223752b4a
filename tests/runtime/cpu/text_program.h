// A program of one rank from its HLO text, ready to run.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "data/schedule/schedule.h"
#include "runtime/cpu/executor.h"
#include "runtime/cpu/kernel_loader.h"

namespace reprise {

/// Threads share whatever can be shared. Fails the test where the text does not
/// run.
class TextProgram {
 public:
  explicit TextProgram(const std::string& hlo, size_t threads = 1,
                       bool interpret = true);
  ~TextProgram();

  const Schedule& schedule() const { return schedule_; }
  Executor& executor() { return *executor_; }

 private:
  InlinedModule module_;
  Schedule schedule_;
  LoadedKernels kernels_;
  std::unique_ptr<Communicator> communicator_;
  std::unique_ptr<Executor> executor_;
};

}  // namespace reprise
