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
  int64_t extent = 1;  ///< Of the outermost loop.

  void run(void* const* arguments) const {
    if (function != nullptr) {
      function(arguments, 0, extent);
    } else {
      interpret(*kernel, arguments, 0, extent);
    }
  }
};

}  // namespace reprise
