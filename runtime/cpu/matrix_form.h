// Which arrays a call on matrices takes and gives: what is in each, and its
// extents behind those of the batch.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "data/hlo/matrix_operation.h"

namespace reprise {

/// Numbers of the call's own kind, real or complex; of one kind whatever that
/// is; or s32. Complex ones are two arrays, of real and imaginary parts.
enum class MatrixArray : uint8_t { kNumbers, kReals, kComplex, kIntegers };

/// A letter per dimension, which stands for one extent in all of a call: that
/// of its first place, but `k` for the lesser one of the first operand and `p`
/// for one less than its last. kAnyExtents: not looked at.
struct ArrayForm {
  MatrixArray holds;
  std::string_view extents;
};
inline constexpr std::string_view kAnyExtents = "*";

struct MatrixForm {
  std::span<const ArrayForm> operands, results;
};

/// Requires: a kind that MatrixRoutine runs.
MatrixForm matrix_form(const MatrixOperation& operation);

}  // namespace reprise
