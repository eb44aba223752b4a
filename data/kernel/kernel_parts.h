// What of a kernel several threads may run at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "data/kernel/kernel.h"

namespace reprise {

/// Statements that run after those of the parts before and before those of the
/// parts behind.
struct KernelPart {
  std::vector<size_t> statements;  ///< Places in the kernel's body, ascending.
  /// The kernel's iterations that are the part's: of the one loop that it is,
  /// which threads may share, or 1.
  int64_t begin = 0, end = 1;
  double share = 1;  ///< Of what the kernel does, about.
  bool is_loop() const { return end - begin > 1; }
};

/// A kernel's iterations are those of its outermost loops, one loop behind the
/// other; what stands between counts as one. A caller runs ranges of them: all
/// of a part before any of the next, those of one part on several threads if
/// it likes.
struct KernelParts {
  /// Lets that every range begins with, and the arguments that they load from:
  /// where an output lies over one of these, all must be one range.
  std::vector<size_t> always;
  std::vector<int32_t> read_always;
  std::vector<KernelPart> parts;
  int64_t iterations() const { return parts.empty() ? 0 : parts.back().end; }
};

/// A loop is a part of its own if its iterations are independent and it shares
/// no lanes, totals or scratch with other statements; what does is one part.
/// Cost: linear in the kernel's statements.
KernelParts kernel_parts(const Kernel& kernel);

/// Of all parts.
int64_t kernel_iterations(const Kernel& kernel);

}  // namespace reprise
