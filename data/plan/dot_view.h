// A dot as one strided, batched matrix product: transposes and reshapes between
// a dot and the values it reads fold into strides, so that no plan ever pays
// for them. The folding depends on the program only: every plan runs the same
// library calls.
//
// All values are stored row-major by their logical dimensions, whatever layout
// the text wrote.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "data/hlo/module.h"
#include "data/result.h"

namespace reprise {

/// A matrix operand: (batch…, rows, columns) over the storage of `value`.
struct StridedMatrix {
  InstructionId value{};
  std::vector<int64_t> dimensions;
  std::vector<int64_t> strides;  ///< Elements.
  bool operator==(const StridedMatrix&) const = default;
};

/// out[b, m, n] = sum_k lhs[b, m, k] * rhs[b, k, n]; lhs and rhs are swapped
/// (and all three transposed) where that makes the columns of `out` contiguous.
struct DotView {
  InstructionId dot{};
  PrimitiveType type = PrimitiveType::kF32;         ///< Of the operands.
  PrimitiveType result_type = PrimitiveType::kF32;  ///< `type`, or f32.
  /// `out.value` is the dot, or the transpose written in its place.
  StridedMatrix lhs, rhs, out;
};

/// Returns the strides of a row-major array.
std::vector<int64_t> row_major_strides(const std::vector<int64_t>& dimensions);

/// Views a strided array under other dimensions without copying; empty when
/// that needs a copy. (The rule of NumPy's no-copy reshape.)
bool reshape_strides(const std::vector<int64_t>& dimensions,
                     const std::vector<int64_t>& strides,
                     const std::vector<int64_t>& new_dimensions,
                     std::vector<int64_t>* new_strides);

/// Lowers one dot. `only_user_transpose` names the transpose that is the only
/// user of the dot, if any; it is folded into the output where strides allow
/// (`out.value` tells). Transposes for which `is_written` holds have storage of
/// their own: they are values, not views. `device` is whose library multiplies:
/// f32, and bf16 giving bf16 or f32; a GPU's f16 likewise, and f64. Errors:
/// kUnsupported naming the dot (other types, or dimensions that no strided
/// matrix expresses).
Result<DotView> view_dot(const Computation& computation, InstructionId dot,
                         const InstructionId* only_user_transpose,
                         const std::function<bool(InstructionId)>& is_written,
                         LoweredFor device);

}  // namespace reprise
