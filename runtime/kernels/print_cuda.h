// Prints a kernel as CUDA C++, one function for each stage
// (print_cuda_stages.h). The text holds numbers and identifiers of its own
// only; nothing of the program. By the macros of its prelude it is also host
// C++, in which a block's threads take turns, region by region: what NVRTC
// compiles is what tests run.
//
// Parallelism. An elementwise nest takes a thread for each element, of several
// elements where there are plenty, so that many loads are in flight;
// elementwise nests that do not need each other share a launch, unless they
// turn out to share memory. A reduction by lanes takes kLanes threads a row;
// long rows, unless very many, a block: it computes elements in parallel into
// shared memory, kLanes of its threads take them in order. A reduction by
// columns walks its rows in order by contract; blocks compute tiles of rows in
// parallel and one thread a column adds them up. Limits: the additions
// themselves stay in sequence, so a column of n rows takes at least n dependent
// additions, a row of n elements n / 16; scattered additions into few elements
// are taken by a thread for each element, which looks at every update; into
// many elements they run one after the other, in parallel only over the loops
// that keep targets apart.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/kernel/kernel.h"

namespace reprise {

/// Blocks of a launch that compute something of their own. Arguments are the
/// kernel's, without the workspace.
struct LaunchPart {
  uint32_t first_block = 0;
  std::vector<int32_t> stored, used;
};

struct PrintedLaunch {
  std::string entry;
  uint32_t grid_blocks = 1;
  uint32_t block_threads = 1;
  /// Where there are several: one that stores where an earlier one has its
  /// arguments, or the other way round, waits for it.
  std::vector<LaunchPart> parts = {};
};

struct PrintedCudaKernel {
  /// Functions with C linkage: addresses of all arguments in order, then of the
  /// workspace, then the first block, as one.
  std::string text;
  std::vector<PrintedLaunch> launches;  ///< To run one after the other.
  int64_t workspace_bytes = 0;
};

/// Entries are NAME_0, NAME_1, …
PrintedCudaKernel print_cuda_kernel(const Kernel& kernel,
                                    std::string_view name);

/// Macros and the math prelude that must precede printed kernels.
std::string cuda_prelude();

}  // namespace reprise
