// XLA's `scan`: what one step of it takes and gives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "data/hlo/module.h"

namespace reprise {

/// `scan(inputs…, carries…)`, in each step of which a computation takes one row
/// of each input and the carries, and gives one row of each output and the next
/// carries. Its result is a tuple of the outputs and the last carries. A row is
/// an array's part at one place of `dimension`, without that dimension.
struct ScanForm {
  size_t dimension = 0;
  size_t inputs = 0, carries = 0, outputs = 0;
  int64_t steps = 0;  ///< At least 1.
  bool is_reverse = false;
  bool is_associative = false;  ///< Steps may be combined in any order.
  ComputationId step{};
};

/// Nothing where operands, computation and result do not fit together so.
std::optional<ScanForm> scan_form(const Module& module,
                                  const Computation& computation,
                                  const Instruction& scan);

/// An array without one dimension, as a row of it is.
Shape row_shape(const Shape& whole, size_t dimension);

/// A scan that cumulates its only input by one binary operation.
struct CumulativeScan {
  Opcode combine = Opcode::kAdd;
  InstructionId identity{};  ///< A scalar constant.
};

/// That of a scan whose step combines row and carry by one operation alone, in
/// any order, gives the result as both, and begins with what leaves the other
/// operand unchanged; nothing for others. `carry`: the first one, a value of
/// `computation`.
std::optional<CumulativeScan> cumulative_scan(const Module& module,
                                              const ScanForm& form,
                                              const Computation& computation,
                                              InstructionId carry);

}  // namespace reprise
