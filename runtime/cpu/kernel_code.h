// What runs a kernel of a schedule on the CPU.
#pragma once

#include <cstdint>

#include "data/kernel/kernel.h"

namespace reprise {

/// What runs a kernel of a schedule: generated code or, where `function` is
/// null, `interpret` of the kernel.
struct KernelCode {
  using Function = void (*)(void* const* arguments, int64_t begin, int64_t end);
  using Interpret = void (*)(const Kernel& kernel, void* const* arguments,
                             int64_t begin, int64_t end);
  Function function = nullptr;
  Interpret interpret = nullptr;
  const Kernel* kernel = nullptr;
  int64_t iterations = 1;  ///< kernel_iterations.

  void run(void* const* arguments) const { run(arguments, 0, iterations); }
  void run(void* const* arguments, int64_t begin, int64_t end) const {
    if (function != nullptr) {
      function(arguments, begin, end);
    } else {
      interpret(*kernel, arguments, begin, end);
    }
  }
};

}  // namespace reprise
