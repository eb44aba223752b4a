// Executes kernels without a compiler: fallback and oracle of the generated
// code, with which it agrees bit for bit. A loop is run in blocks, one
// operation at a time.
#pragma once

#include <cstdint>

#include "data/kernel/kernel.h"

namespace reprise {

/// Runs a kernel's iterations [begin, end) (kernel_parts.h), as its generated
/// code would; [0, kernel_iterations(kernel)) is all of it. `arguments` as in
/// Kernel::arguments. Requires: outputs share memory with inputs only where
/// in_place_safe says so.
void interpret_kernel(const Kernel& kernel, void* const* arguments,
                      int64_t begin, int64_t end);

}  // namespace reprise
