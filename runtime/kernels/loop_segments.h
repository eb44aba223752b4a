// Where a loop is better run piece by piece.
//
// A concatenation or a padding is one loop over its result that asks of each
// element in which piece it lies. Between two borders the answer is one, so
// that the host compiler drops the question and vectorizes plain copies (index
// set splitting).
#pragma once

#include <cstdint>
#include <vector>

#include "data/kernel/kernel.h"

namespace reprise {

/// Borders inside of an innermost loop, ascending, its two ends included: 0 and
/// the extent alone where nothing changes, or too many pieces would be printed.
/// Cost: expressions of the loop, squared.
std::vector<int64_t> loop_segments(const Kernel& kernel,
                                   const KernelStatement& loop);

}  // namespace reprise
