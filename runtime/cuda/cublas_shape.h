// A dot of the schedule as the calls of a column-major matrix library. Pure
// arithmetic; needs no header of the toolkit.
#pragma once

#include <cstdint>
#include <vector>

#include "data/result.h"
#include "data/schedule/schedule.h"

namespace reprise {

enum class MatrixMath : uint8_t {
  kF32,   ///< f32 multiplied in f32, f64 in f64; 16 bits accumulated in f32.
  kTf32,  ///< f32 operands may be rounded to 10 bits of mantissa (TF32).
};

/// One matrix of a batch as the library reads it: `rows` × `columns` in columns
/// `leading` elements apart, possibly meant transposed.
struct ColumnMajor {
  int64_t rows = 1, columns = 1;
  int64_t leading = 1;       ///< Elements; at least `rows`.
  bool transposed = false;   ///< What is multiplied is the transpose.
  int64_t batch_stride = 0;  ///< Elements.
  bool operator==(const ColumnMajor&) const = default;
};

/// Elements from each operand's first one.
struct MatrixOffsets {
  int64_t a = 0, b = 0, out = 0;
  bool operator==(const MatrixOffsets&) const = default;
};

/// out = activation(alpha · a · b + bias + accumulate) for a strided batch,
/// once at each of `offsets`. The bias runs along the rows of `out` as the
/// library sees it, the same in every batch; `accumulate` lies as `out` does.
struct MatrixProduct {
  PrimitiveType type = PrimitiveType::kF32;         ///< Of `a` and `b`.
  PrimitiveType result_type = PrimitiveType::kF32;  ///< `type`, or f32.
  int64_t m = 1, n = 1, k = 1, batches = 1;
  ColumnMajor a, b, out;
  /// `a` is the dot's rhs and `b` its lhs: the transpose of the product is
  /// computed, because the output's rows are contiguous.
  bool swapped = false;
  float alpha = 1;
  bool has_bias = false, has_accumulate = false;
  DotActivation activation = DotActivation::kNone;
  std::vector<MatrixOffsets> offsets;
};

/// Maps any dot whose matrices have one dimension of unit stride (dimensions of
/// extent 1 count as such). Batch dimensions are merged where all three strides
/// nest; the largest that remains is the strided batch, the others become
/// `offsets`. Errors: kUnsupported for other strides, for an epilogue of a type
/// other than f32, and for a bias along columns that are not contiguous (which
/// no plan that was lowered has).
Result<MatrixProduct> matrix_product(const DotSpec& spec);

}  // namespace reprise
