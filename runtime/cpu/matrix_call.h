// The matrices of a call, whether their numbers are complex (which then lie in
// two arrays, real and imaginary parts) or not.
#pragma once

#include <cstddef>
#include <span>

#include "data/hlo/matrix_operation.h"
#include "data/result.h"
#include "runtime/cpu/matrix_form.h"
#include "runtime/cpu/routine.h"

namespace reprise {

/// Rows, columns and elements of the matrices in an array; a vector per matrix
/// is a column.
struct MatrixExtents {
  size_t rows = 1, columns = 1;
  size_t elements() const { return rows * columns; }
};

/// Operands and results as LAPACK counts them.
class MatrixCall {
 public:
  /// Errors: kUnsupported for other types than f32 and f64, and for arrays of
  /// 2^31 elements or more; kInvalid where shapes do not fit together.
  static Result<MatrixCall> make(const RoutineCall& call);

  const MatrixOperation& operation() const { return operation_; }
  PrimitiveType type() const;
  size_t matrices() const { return matrices_; }

  MatrixExtents operand_extents(size_t operand) const;
  MatrixExtents result_extents(size_t result) const;
  /// Where singular vectors are given: the left ones, and the right ones.
  size_t u_result() const {
    return operation_.singular == SingularVectors::kVtU ? 3 : 2;
  }
  size_t v_result() const { return 5 - u_result(); }
  /// Whether nothing reads it and nothing needs it, or it is none of this call.
  bool is_dropped(size_t result) const;

  /// Elements of a part: 0, or 1 for what is imaginary; null where dropped.
  template <typename T>
  const T* operand(size_t operand, size_t part = 0) const {
    return reinterpret_cast<const T*>(
        call_.operands[first_operand(operand) + part].data());
  }
  template <typename T>
  T* result(size_t result, size_t part = 0) const {
    return reinterpret_cast<T*>(
        call_.results[first_result(result) + part].data());
  }

 private:
  explicit MatrixCall(const RoutineCall& call);
  /// Arrays before the one that is `place` of a form.
  size_t arrays_before(std::span<const ArrayForm> all, size_t place) const;
  size_t first_operand(size_t operand) const {
    return arrays_before(form_.operands, operand);
  }
  size_t first_result(size_t result) const {
    return arrays_before(form_.results, result);
  }
  const Shape& operand_shape(size_t operand) const;
  const Shape& result_shape(size_t result) const;
  Status check_counts() const;
  Status check_shapes() const;

  RoutineCall call_;
  MatrixOperation operation_;
  MatrixForm form_;  ///< Of results, those that the instruction has.
  size_t batch_dimensions_ = 0, matrices_ = 1;
};

}  // namespace reprise
