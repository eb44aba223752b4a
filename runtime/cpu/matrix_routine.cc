// cholesky, triangular-solve and the calls of LAPACK that JAX writes, and those
// of GPUs that mean the same, matrix by matrix. JAX calls the same routines on
// the same column-major matrices, so signs and pivots are its own.
#include <algorithm>
#include <array>
#include <complex>

#include "runtime/cpu/lapack.h"
#include "runtime/cpu/matrix_call.h"
#include "runtime/cpu/matrix_elements.h"
#include "runtime/cpu/perturbed_solve.h"
#include "runtime/cpu/routine.h"
#include "runtime/cpu/similarity_routine.h"

namespace reprise {
namespace {

/// T: of the numbers of a matrix, float or double, real or complex.
template <typename T>
class MatrixRoutine final : public Routine {
 public:
  explicit MatrixRoutine(const MatrixCall& call)
      : arrays_(call),
        operation_(call.operation()),
        a_(call.operand_extents(0)),
        least_(std::min(a_.rows, a_.columns)) {}

  bool run() override {
    for (size_t m = 0; m < arrays_.call().matrices(); ++m) compute(m);
    return true;
  }

 private:
  using Real = lapack::Real<T>;

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
      case MatrixKind::kPivotedQr:
        return pivoted_qr(matrix);
      case MatrixKind::kHouseholderProduct:
        return householder_product(matrix);
      case MatrixKind::kReflectorProduct:
        return reflector_product(matrix);
      case MatrixKind::kTridiagonalSolve:
        return tridiagonal_solve(matrix);
      default:
        return singular(matrix);
    }
  }

  /// Zero outside its triangle; NaN where there is no factor.
  void cholesky(size_t matrix) {
    arrays_.load(0, matrix, &work_a_);
    const size_t n = a_.rows;
    const int32_t info =
        lapack::potrf(operation_.lower, fortran(n), work_a_.data());
    for (size_t i = 0; i < work_a_.size(); ++i) {
      const size_t row = i % n, column = i / n;
      if (operation_.lower ? row < column : row > column) work_a_[i] = 0;
      if (info != 0) work_a_[i] = not_a_number<T>();
    }
    arrays_.store(work_a_, 0, matrix);
    arrays_.put_integers(1, matrix, {&info, 1});
  }

  void triangular_solve(size_t matrix) {
    const MatrixExtents x = arrays_.call().operand_extents(1);
    const auto from = arrays_.source(1, matrix);
    work_b_.resize(x.elements());
    for (size_t i = 0; i < work_b_.size(); ++i) work_b_[i] = from[i];
    lapack::trsm({.left = operation_.left,
                  .lower = operation_.lower,
                  .transposed = operation_.transposed,
                  .conjugated = operation_.conjugated,
                  .unit_diagonal = operation_.unit_diagonal},
                 fortran(x.rows), fortran(x.columns), row_major(0, matrix),
                 work_b_.data());
    const auto to = arrays_.template target<T>(0, matrix);
    for (size_t i = 0; i < work_b_.size(); ++i) to.put(i, work_b_[i]);
  }

  void lu(size_t matrix) {
    arrays_.load(0, matrix, &work_a_);
    pivots_.resize(least_);
    const int32_t info = lapack::getrf(fortran(a_.rows), fortran(a_.columns),
                                       work_a_.data(), pivots_.data());
    arrays_.store(work_a_, 0, matrix);
    arrays_.put_integers(1, matrix, pivots_);
    arrays_.put_integers(2, matrix, {&info, 1});
  }

  void qr(size_t matrix) {
    arrays_.load(0, matrix, &work_a_);
    work_b_.resize(least_);
    lapack::geqrf(fortran(a_.rows), fortran(a_.columns), work_a_.data(),
                  work_b_.data(), &space_);
    arrays_.store(work_a_, 0, matrix);
    arrays_.store(work_b_, 1, matrix);
  }

  void pivoted_qr(size_t matrix) {
    arrays_.load(0, matrix, &work_a_);
    arrays_.get_integers(1, matrix, &pivots_);
    work_b_.resize(least_);
    lapack::geqp3(fortran(a_.rows), fortran(a_.columns), work_a_.data(),
                  pivots_.data(), work_b_.data(), &space_);
    arrays_.store(work_a_, 0, matrix);
    arrays_.put_integers(1, matrix, pivots_);
    arrays_.store(work_b_, 2, matrix);
  }

  void reflector_product(size_t matrix) {
    const MatrixExtents c = arrays_.call().operand_extents(2);
    arrays_.load(0, matrix, &work_a_);
    arrays_.load(1, matrix, &work_b_);
    arrays_.load(2, matrix, &work_c_);
    lapack::ormqr(operation_.left, operation_.transposed, fortran(c.rows),
                  fortran(c.columns), fortran(work_b_.size()), work_a_.data(),
                  work_b_.data(), work_c_.data(), &space_);
    arrays_.store(work_c_, 0, matrix);
  }

  void householder_product(size_t matrix) {
    arrays_.load(0, matrix, &work_a_);
    arrays_.load(1, matrix, &work_b_);
    lapack::orgqr(fortran(a_.rows), fortran(a_.columns),
                  fortran(work_b_.size()), work_a_.data(), work_b_.data(),
                  &space_);
    arrays_.store(work_a_, 0, matrix);
  }

  void singular(size_t matrix) {
    arrays_.load(0, matrix, &work_a_);
    const MatrixCall& call = arrays_.call();
    const MatrixExtents u = call.result_extents(call.u_result()),
                        v = call.result_extents(call.v_result());
    const bool vectors = operation_.vectors;
    values_.assign(least_, not_a_number<Real>());
    work_b_.assign(vectors ? u.elements() : 0, not_a_number<T>());
    work_c_.assign(vectors ? v.elements() : 0, not_a_number<T>());
    int32_t info = 0;
    if (is_finite(Read::kWhole, a_.rows, work_a_)) {
      const auto factored =
          operation_.by_qr ? lapack::gesvd<T> : lapack::gesdd<T>;
      info = factored(v.rows == a_.columns && v.columns == a_.columns &&
                          u.columns == a_.rows,
                      fortran(a_.rows), fortran(a_.columns), work_a_.data(),
                      values_.data(), vectors ? work_b_.data() : nullptr,
                      vectors ? work_c_.data() : nullptr, &space_);
    }
    arrays_.store(values_, 1, matrix);
    if (vectors) {
      arrays_.store(work_b_, call.u_result(), matrix);
      if (operation_.singular == SingularVectors::kUV)
        take_adjoint(v.columns, v.rows, &work_c_);
      arrays_.store(work_c_, call.v_result(), matrix);
    }
    arrays_.put_integers(4, matrix, {&info, 1});
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
    for (size_t i = 0; i < all.size(); ++i) arrays_.load(i, matrix, all[i]);
    const size_t n = a_.rows;
    if (operation_.perturbed) {
      perturbed_solve(n, work_b_.size() / n, work_a_.data(), diagonal_.data(),
                      work_c_.data(), work_b_.data());
      return arrays_.store(work_b_, 0, matrix);
    }
    const int32_t info = lapack::gtsv(fortran(n), fortran(work_b_.size() / n),
                                      work_a_.data() + 1, diagonal_.data(),
                                      work_c_.data(), work_b_.data());
    if (operation_.solution_alone) return arrays_.store(work_b_, 0, matrix);
    for (size_t i = 0; i < all.size(); ++i) arrays_.store(*all[i], i, matrix);
    arrays_.put_integers(4, matrix, {&info, 1});
  }

  /// A matrix of an operand, as it lies, in place where it can be.
  const T* row_major(size_t operand, size_t matrix) {
    const auto from = arrays_.source(operand, matrix);
    if constexpr (lapack::kIsComplex<T>) {
      work_a_.resize(a_.elements());
      for (size_t i = 0; i < work_a_.size(); ++i) work_a_[i] = from[i];
      return work_a_.data();
    } else {
      return from.real;
    }
  }

  const MatrixElements<T> arrays_;
  MatrixOperation operation_;
  MatrixExtents a_;
  size_t least_;
  lapack::Array<T> work_a_, work_b_, work_c_, diagonal_;
  lapack::Array<Real> values_;
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
  switch (operation.kind) {
    case MatrixKind::kSymmetricEigen:
    case MatrixKind::kEigen:
    case MatrixKind::kSchur:
    case MatrixKind::kHessenberg:
    case MatrixKind::kTridiagonal:
      return make_similarity_routine(*matrices);
    default:
      return matrix_routine_of_type<MatrixRoutine>(*matrices);
  }
}

}  // namespace reprise
