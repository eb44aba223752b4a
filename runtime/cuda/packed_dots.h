// Dots that read a matrix without a unit stride, such as one whose batch
// dimension is innermost: matrix libraries cannot, so a kernel copies it into
// scratch memory first.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "data/kernel/kernel.h"
#include "data/schedule/schedule.h"

namespace reprise {

/// One operand that is copied before its dot.
struct PackedOperand {
  bool is_rhs = false;
  int32_t kernel = -1;         ///< Index in PackedDots::kernels.
  int64_t scratch_offset = 0;  ///< Bytes; a multiple of 256.
};

struct PackedDots {
  std::vector<Kernel> kernels;  ///< Arguments: the location, the dense copy.
  std::map<UnitId, std::vector<PackedOperand>> operands;
  int64_t scratch_bytes = 0;  ///< The largest dot's; one runs after the other.
};

/// What the dots of a schedule need copied; nothing in most schedules.
PackedDots pack_dots(const Schedule& schedule);

/// The view as a dense row-major batch of matrices. Its location is not of the
/// schedule any more.
MatrixView dense_view(const MatrixView& view);

}  // namespace reprise
