// Rows that a kernel leaves as they are where it runs in place.
//
// A dynamic-update-slice stores, of each element of its result, the update's or
// the operand's: over a scan's stack of T rows that is T rows read and written
// for each one that changes. Where the result lies over the operand, the others
// need not be touched, so that a step of the scan costs one row, as in XLA's
// in-place update. Nor asked: of T rows, T steps would ask T times each.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "data/kernel/kernel.h"

namespace reprise {

struct KeptRows {
  /// A pred value: where it is false an iteration stores what it has loaded
  /// from the same element, and nothing else.
  int32_t changed = -1;
  /// Arguments, input and output: nothing changes while each pair is one array.
  std::vector<std::pair<int32_t, int32_t>> in_place;
};

/// Of all that statements store. Nothing where they do more than that.
std::optional<KeptRows> kept_elements(
    const Kernel& kernel, const std::vector<KernelStatement>& statements);

/// Of one loop that stands around others and lets `changed` in its own body.
/// Nothing where there is none. Cost: statements × stores.
std::optional<KeptRows> kept_rows(const Kernel& kernel,
                                  const KernelStatement& loop);

/// Iterations in which `changed` can hold: those with the expression, which has
/// the loop's variable once, in [low, high].
struct ChangedRange {
  int32_t expression = -1;
  int64_t low = 0, high = 0;
};

/// All such conditions on `loop` that are known before it begins; none where
/// its variable does not decide. Cost: statements + values of `changed`.
std::vector<ChangedRange> changed_ranges(const Kernel& kernel,
                                         const KernelStatement& loop,
                                         const KeptRows& rows);

/// Arguments, input and output, of which a loop only copies the one to the
/// other, element by element: while each pair is one array it does nothing. So
/// begins a scatter, which then costs what it changes. Empty for other loops.
std::vector<std::pair<int32_t, int32_t>> copied_in_place(
    const Kernel& kernel, const KernelStatement& loop);

}  // namespace reprise
