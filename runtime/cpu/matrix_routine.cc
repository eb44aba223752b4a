// cholesky, triangular-solve and the calls of LAPACK that JAX writes, and those
// of GPUs that mean the same, matrix by matrix. JAX calls the same routines on
// the same column-major matrices, so signs and pivots are its own.
#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>

#include "runtime/cpu/lapack.h"
#include "runtime/cpu/matrix_call.h"
#include "runtime/cpu/routine.h"

namespace reprise {
namespace {

/// The triangle of an n by n matrix that is read, or all of it.
enum class Read : uint8_t { kLower, kUpper, kWhole };

template <typename T>
using Real = lapack::Real<T>;

template <typename T>
bool is_finite(const T& value) {
  return std::isfinite(std::real(value)) && std::isfinite(std::imag(value));
}

template <typename T>
bool is_finite(Read read, size_t rows, const lapack::Array<T>& column_major) {
  for (size_t i = 0; i < column_major.size(); ++i) {
    const size_t row = i % rows, column = i / rows;
    if (read == Read::kLower ? row < column
                             : read == Read::kUpper && row > column)
      continue;
    if (!is_finite(column_major[i])) return false;
  }
  return true;
}

template <typename T>
constexpr T not_a_number() {
  constexpr Real<T> kNaN = std::numeric_limits<Real<T>>::quiet_NaN();
  if constexpr (lapack::kIsComplex<T>) {
    return {kNaN, kNaN};
  } else {
    return kNaN;
  }
}

/// T: of the numbers of a matrix, float or double, real or complex.
template <typename T>
class MatrixRoutine final : public Routine {
 public:
  explicit MatrixRoutine(const MatrixCall& call)
      : call_(call),
        operation_(call.operation()),
        a_(call.operand_extents(0)),
        least_(std::min(a_.rows, a_.columns)) {}

  bool run() override {
    for (size_t m = 0; m < call_.matrices(); ++m) compute(m);
    return true;
  }

 private:
  void compute(size_t matrix) {
    switch (operation_.kind) {
      case MatrixKind::kCholesky:
        return cholesky(matrix);
      case MatrixKind::kTriangularSolve:
        return triangular_solve(matrix);
      case MatrixKind::kLu:
        return lu(matrix);
      case MatrixKind::kQr:
        return qr(matrix);
      case MatrixKind::kHouseholderProduct:
        return householder_product(matrix);
      case MatrixKind::kSymmetricEigen:
        return eigen(matrix);
      case MatrixKind::kTridiagonalSolve:
        return tridiagonal_solve(matrix);
      default:
        return singular(matrix);
    }
  }

  /// Zero outside its triangle; NaN where there is no factor.
  void cholesky(size_t matrix) {
    load(0, matrix, &work_a_);
    const size_t n = a_.rows;
    const int32_t info = lapack::potrf(operation_.lower, of(n), work_a_.data());
    for (size_t i = 0; i < work_a_.size(); ++i) {
      const size_t row = i % n, column = i / n;
      if (operation_.lower ? row < column : row > column) work_a_[i] = 0;
      if (info != 0) work_a_[i] = not_a_number<T>();
    }
    store(work_a_, 0, matrix);
    put_integers(1, matrix, {&info, 1});
  }

  void triangular_solve(size_t matrix) {
    const MatrixExtents x = call_.operand_extents(1);
    const Source from = source(1, matrix);
    work_b_.resize(x.elements());
    for (size_t i = 0; i < work_b_.size(); ++i) work_b_[i] = from[i];
    lapack::trsm({.left = operation_.left,
                  .lower = operation_.lower,
                  .transposed = operation_.transposed,
                  .conjugated = operation_.conjugated,
                  .unit_diagonal = operation_.unit_diagonal},
                 of(x.rows), of(x.columns), row_major(0, matrix),
                 work_b_.data());
    const auto to = target<T>(0, matrix);
    for (size_t i = 0; i < work_b_.size(); ++i) to.put(i, work_b_[i]);
  }

  void lu(size_t matrix) {
    load(0, matrix, &work_a_);
    pivots_.resize(least_);
    const int32_t info = lapack::getrf(of(a_.rows), of(a_.columns),
                                       work_a_.data(), pivots_.data());
    store(work_a_, 0, matrix);
    put_integers(1, matrix, pivots_);
    put_integers(2, matrix, {&info, 1});
  }

  void qr(size_t matrix) {
    load(0, matrix, &work_a_);
    work_b_.resize(least_);
    lapack::geqrf(of(a_.rows), of(a_.columns), work_a_.data(), work_b_.data(),
                  &space_);
    store(work_a_, 0, matrix);
    store(work_b_, 1, matrix);
  }

  void householder_product(size_t matrix) {
    load(0, matrix, &work_a_);
    load(1, matrix, &work_b_);
    lapack::orgqr(of(a_.rows), of(a_.columns), of(work_b_.size()),
                  work_a_.data(), work_b_.data(), &space_);
    store(work_a_, 0, matrix);
  }

  /// All NaN where an element is not finite: divide and conquer may not end.
  void eigen(size_t matrix) {
    load(0, matrix, &work_a_);
    const bool lower = operation_.lower;
    values_.assign(a_.rows, not_a_number<Real<T>>());
    int32_t info = 0;
    if (is_finite(lower ? Read::kLower : Read::kUpper, a_.rows, work_a_)) {
      info = lapack::syevd(operation_.vectors, lower, of(a_.rows),
                           work_a_.data(), values_.data(), &space_);
    } else {
      std::ranges::fill(work_a_, not_a_number<T>());
    }
    store(work_a_, 0, matrix);
    store(values_, 1, matrix);
    put_integers(2, matrix, {&info, 1});
  }

  void singular(size_t matrix) {
    load(0, matrix, &work_a_);
    const MatrixExtents u = call_.result_extents(call_.u_result()),
                        v = call_.result_extents(call_.v_result());
    const bool vectors = operation_.vectors;
    values_.assign(least_, not_a_number<Real<T>>());
    work_b_.assign(vectors ? u.elements() : 0, not_a_number<T>());
    work_c_.assign(vectors ? v.elements() : 0, not_a_number<T>());
    int32_t info = 0;
    if (is_finite(Read::kWhole, a_.rows, work_a_)) {
      info = lapack::gesdd(v.rows == a_.columns && v.columns == a_.columns &&
                               u.columns == a_.rows,
                           of(a_.rows), of(a_.columns), work_a_.data(),
                           values_.data(), vectors ? work_b_.data() : nullptr,
                           vectors ? work_c_.data() : nullptr, &space_);
    }
    store(values_, 1, matrix);
    if (vectors) {
      store(work_b_, call_.u_result(), matrix);
      if (operation_.singular == SingularVectors::kUV)
        take_adjoint(v.columns, v.rows, &work_c_);
      store(work_c_, call_.v_result(), matrix);
    }
    put_integers(4, matrix, {&info, 1});
  }

  /// Of a matrix of rows by columns.
  void take_adjoint(size_t rows, size_t columns, lapack::Array<T>* matrix) {
    work_a_.resize(matrix->size());
    for (size_t row = 0; row < rows; ++row) {
      for (size_t column = 0; column < columns; ++column) {
        const T& value = (*matrix)[column * rows + row];
        if constexpr (lapack::kIsComplex<T>) {
          work_a_[row * columns + column] = std::conj(value);
        } else {
          work_a_[row * columns + column] = value;
        }
      }
    }
    matrix->swap(work_a_);
  }

  void tridiagonal_solve(size_t matrix) {
    const std::array<lapack::Array<T>*, 4> all = {&work_a_, &diagonal_,
                                                  &work_c_, &work_b_};
    for (size_t i = 0; i < all.size(); ++i) load(i, matrix, all[i]);
    const size_t n = a_.rows;
    const int32_t info =
        lapack::gtsv(of(n), of(work_b_.size() / n), work_a_.data() + 1,
                     diagonal_.data(), work_c_.data(), work_b_.data());
    if (operation_.solution_alone) return store(work_b_, 0, matrix);
    for (size_t i = 0; i < all.size(); ++i) store(*all[i], i, matrix);
    put_integers(4, matrix, {&info, 1});
  }

  static int32_t of(size_t extent) { return static_cast<int32_t>(extent); }

  /// Numbers of one matrix of an operand.
  struct Source {
    const Real<T>*real, *imaginary;

    T operator[](size_t place) const {
      if constexpr (lapack::kIsComplex<T>) {
        return {real[place], imaginary[place]};
      } else {
        return real[place];
      }
    }
  };
  Source source(size_t operand, size_t matrix) const {
    const size_t from = matrix * call_.operand_extents(operand).elements();
    Source found{call_.operand<Real<T>>(operand) + from, nullptr};
    if constexpr (lapack::kIsComplex<T>)
      found.imaginary = call_.operand<Real<T>>(operand, 1) + from;
    return found;
  }

  /// Those of a result: a part may have no reader, and then is null.
  template <typename Number>
  struct Target {
    Real<T>*real, *imaginary;

    void put(size_t place, const Number& value) const {
      if (real != nullptr) real[place] = std::real(value);
      if (imaginary != nullptr) imaginary[place] = std::imag(value);
    }
  };
  template <typename Number>
  Target<Number> target(size_t result, size_t matrix) const {
    const size_t from = matrix * call_.result_extents(result).elements();
    Target<Number> found{call_.result<Real<T>>(result), nullptr};
    if (found.real != nullptr) found.real += from;
    if constexpr (lapack::kIsComplex<Number>) {
      found.imaginary = call_.result<Real<T>>(result, 1);
      if (found.imaginary != nullptr) found.imaginary += from;
    }
    return found;
  }

  /// A matrix of an operand, as it lies, in place where it can be.
  const T* row_major(size_t operand, size_t matrix) {
    const Source from = source(operand, matrix);
    if constexpr (lapack::kIsComplex<T>) {
      work_a_.resize(call_.operand_extents(operand).elements());
      for (size_t i = 0; i < work_a_.size(); ++i) work_a_[i] = from[i];
      return work_a_.data();
    } else {
      return from.real;
    }
  }

  /// A matrix of an operand, column-major.
  void load(size_t operand, size_t matrix, lapack::Array<T>* to) const {
    const MatrixExtents extents = call_.operand_extents(operand);
    const Source from = source(operand, matrix);
    to->resize(extents.elements());
    for (size_t column = 0; column < extents.columns; ++column) {
      for (size_t row = 0; row < extents.rows; ++row)
        (*to)[column * extents.rows + row] =
            from[row * extents.columns + column];
    }
  }

  template <typename Number>
  void store(const lapack::Array<Number>& from, size_t result,
             size_t matrix) const {
    if (call_.is_dropped(result)) return;
    const MatrixExtents extents = call_.result_extents(result);
    const auto to = target<Number>(result, matrix);
    for (size_t row = 0; row < extents.rows; ++row) {
      for (size_t column = 0; column < extents.columns; ++column)
        to.put(row * extents.columns + column,
               from[column * extents.rows + row]);
    }
  }

  void put_integers(size_t result, size_t matrix,
                    std::span<const int32_t> values) const {
    if (call_.is_dropped(result)) return;
    std::memcpy(call_.result<int32_t>(result) + matrix * values.size(),
                values.data(), values.size_bytes());
  }

  MatrixCall call_;
  MatrixOperation operation_;
  MatrixExtents a_;
  size_t least_;
  lapack::Array<T> work_a_, work_b_, work_c_, diagonal_;
  lapack::Array<Real<T>> values_;
  lapack::Array<int32_t> pivots_;
  lapack::Workspace<T> space_;
};

}  // namespace

Result<std::unique_ptr<Routine>> make_matrix_routine(const RoutineCall& call) {
  const MatrixOperation operation = matrix_operation(call.instruction);
  if (operation.kind == MatrixKind::kNone) {
    return fail(ErrorKind::kUnsupported, "custom-call '{}' does not run",
                custom_call_target(call.instruction));
  }
  if (operation.kind == MatrixKind::kPermutation) return make_permutation(call);
  const Result<MatrixCall> matrices = MatrixCall::make(call);
  if (!matrices) return pass(matrices.error());
  if (Status loaded = lapack::load(); !loaded) return pass(loaded.error());
  const bool is_single = matrices->type() == PrimitiveType::kF32;
  if (operation.complex) {
    if (is_single)
      return std::make_unique<MatrixRoutine<std::complex<float>>>(*matrices);
    return std::make_unique<MatrixRoutine<std::complex<double>>>(*matrices);
  }
  if (is_single) return std::make_unique<MatrixRoutine<float>>(*matrices);
  return std::make_unique<MatrixRoutine<double>>(*matrices);
}

}  // namespace reprise
