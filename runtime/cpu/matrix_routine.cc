// cholesky, triangular-solve and the calls of LAPACK that JAX writes, matrix by
// matrix. JAX calls the same routines on the same
// column-major matrices, so signs and pivots are its own.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "data/hlo/hlo.h"
#include "data/hlo/matrix_operation.h"
#include "runtime/cpu/array_view.h"
#include "runtime/cpu/lapack.h"
#include "runtime/cpu/routine.h"

namespace reprise {
namespace {

/// Rows, columns and elements of the matrices in an array; a vector per matrix
/// is a column.
struct Extents {
  size_t rows = 1, columns = 1;
  size_t elements() const { return rows * columns; }
};

Extents extents_of(const Shape& shape, size_t batch_dimensions) {
  const std::vector<int64_t>& all = shape.dimensions;
  Extents extents;
  if (all.size() > batch_dimensions)
    extents.rows = static_cast<size_t>(all[batch_dimensions]);
  if (all.size() > batch_dimensions + 1)
    extents.columns = static_cast<size_t>(all[batch_dimensions + 1]);
  return extents;
}

/// Dimensions before those of a matrix, or of its diagonal.
size_t batch_dimensions(const RoutineCall& call, MatrixKind kind) {
  return call.operand_shape(0).dimensions.size() -
         (kind == MatrixKind::kTridiagonalSolve ? 1 : 2);
}

/// The triangle of an n by n matrix that is read, or all of it.
enum class Read : uint8_t { kLower, kUpper, kWhole };

template <typename T>
bool is_finite(Read read, size_t rows, const lapack::Array<T>& column_major) {
  for (size_t i = 0; i < column_major.size(); ++i) {
    const size_t row = i % rows, column = i / rows;
    if (read == Read::kLower ? row < column
                             : read == Read::kUpper && row > column)
      continue;
    if (!std::isfinite(column_major[i])) return false;
  }
  return true;
}

template <typename T>
constexpr T kNaN = std::numeric_limits<T>::quiet_NaN();

/// T: float or double, the type of all that is not an integer.
template <typename T>
class MatrixRoutine final : public Routine {
 public:
  MatrixRoutine(const RoutineCall& call, const MatrixOperation& operation)
      : call_(call),
        operation_(operation),
        batch_dimensions_(batch_dimensions(call, operation.kind)),
        a_(extents_of(call.operand_shape(0), batch_dimensions_)),
        least_(std::min(a_.rows, a_.columns)) {
    const std::vector<int64_t>& all = call.operand_shape(0).dimensions;
    for (size_t d = 0; d < batch_dimensions_; ++d)
      matrices_ *= static_cast<size_t>(all[d]);
  }

  bool run() override {
    for (size_t m = 0; m < matrices_; ++m) compute(m);
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
      if (info != 0) work_a_[i] = kNaN<T>;
    }
    store(work_a_, 0, matrix);
    put_integers(1, matrix, {&info, 1});
  }

  void triangular_solve(size_t matrix) {
    const Extents x = extents_of(call_.operand_shape(1), batch_dimensions_);
    const T* from = operand(1) + matrix * x.elements();
    work_b_.assign(from, from + x.elements());
    lapack::trsm({.left = operation_.left,
                  .lower = operation_.lower,
                  .transposed = operation_.transposed,
                  .unit_diagonal = operation_.unit_diagonal},
                 of(x.rows), of(x.columns), operand(0) + matrix * a_.elements(),
                 work_b_.data());
    std::ranges::copy(work_b_, result(0) + matrix * x.elements());
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
    values_.resize(least_);
    lapack::geqrf(of(a_.rows), of(a_.columns), work_a_.data(), values_.data(),
                  &space_);
    store(work_a_, 0, matrix);
    store(values_, 1, matrix);
  }

  void householder_product(size_t matrix) {
    load(0, matrix, &work_a_);
    load(1, matrix, &values_);
    lapack::orgqr(of(a_.rows), of(a_.columns), of(values_.size()),
                  work_a_.data(), values_.data(), &space_);
    store(work_a_, 0, matrix);
  }

  /// All NaN where an element is not finite: divide and conquer may not end.
  void eigen(size_t matrix) {
    load(0, matrix, &work_a_);
    const bool lower = operation_.lower;
    values_.assign(a_.rows, kNaN<T>);
    int32_t info = 0;
    if (is_finite(lower ? Read::kLower : Read::kUpper, a_.rows, work_a_)) {
      info = lapack::syevd(operation_.vectors, lower, of(a_.rows),
                           work_a_.data(), values_.data(), &space_);
    } else {
      std::ranges::fill(work_a_, kNaN<T>);
    }
    store(work_a_, 0, matrix);
    store(values_, 1, matrix);
    put_integers(2, matrix, {&info, 1});
  }

  void singular(size_t matrix) {
    load(0, matrix, &work_a_);
    const Extents u = result_extents(2), vt = result_extents(3);
    const bool vectors = operation_.vectors;
    values_.assign(least_, kNaN<T>);
    work_b_.assign(vectors ? u.elements() : 0, kNaN<T>);
    work_c_.assign(vectors ? vt.elements() : 0, kNaN<T>);
    int32_t info = 0;
    if (is_finite(Read::kWhole, a_.rows, work_a_)) {
      info = lapack::gesdd(vt.rows == a_.columns && u.columns == a_.rows,
                           of(a_.rows), of(a_.columns), work_a_.data(),
                           values_.data(), vectors ? work_b_.data() : nullptr,
                           vectors ? work_c_.data() : nullptr, &space_);
    }
    store(values_, 1, matrix);
    if (vectors) {
      store(work_b_, 2, matrix);
      store(work_c_, 3, matrix);
    }
    put_integers(4, matrix, {&info, 1});
  }

  void tridiagonal_solve(size_t matrix) {
    const std::array<lapack::Array<T>*, 4> all = {&work_a_, &values_, &work_c_,
                                                  &work_b_};
    for (size_t i = 0; i < all.size(); ++i) load(i, matrix, all[i]);
    const size_t n = a_.rows;
    const int32_t info =
        lapack::gtsv(of(n), of(work_b_.size() / n), work_a_.data() + 1,
                     values_.data(), work_c_.data(), work_b_.data());
    for (size_t i = 0; i < all.size(); ++i) store(*all[i], i, matrix);
    put_integers(4, matrix, {&info, 1});
  }

  static int32_t of(size_t extent) { return static_cast<int32_t>(extent); }
  const T* operand(size_t number) const {
    return reinterpret_cast<const T*>(call_.operands[number].data());
  }
  T* result(size_t number) const {
    return reinterpret_cast<T*>(call_.results[number].data());
  }
  Extents result_extents(size_t number) const {
    return extents_of(call_.result_shape(number), batch_dimensions_);
  }

  /// A matrix of an operand, column-major.
  void load(size_t number, size_t matrix, lapack::Array<T>* to) const {
    const Extents extents =
        extents_of(call_.operand_shape(number), batch_dimensions_);
    const T* from = operand(number) + matrix * extents.elements();
    to->resize(extents.elements());
    for (size_t column = 0; column < extents.columns; ++column) {
      for (size_t row = 0; row < extents.rows; ++row)
        (*to)[column * extents.rows + row] =
            from[row * extents.columns + column];
    }
  }

  void store(const lapack::Array<T>& from, size_t number, size_t matrix) const {
    if (call_.results[number].empty()) return;
    const Extents extents = result_extents(number);
    T* to = result(number) + matrix * extents.elements();
    for (size_t row = 0; row < extents.rows; ++row) {
      for (size_t column = 0; column < extents.columns; ++column)
        to[row * extents.columns + column] = from[column * extents.rows + row];
    }
  }

  /// Of an opcode of XLA's own there is no such result.
  void put_integers(size_t number, size_t matrix,
                    std::span<const int32_t> values) const {
    if (number >= call_.results.size() || call_.results[number].empty()) return;
    std::memcpy(call_.results[number].data() + matrix * values.size_bytes(),
                values.data(), values.size_bytes());
  }

  RoutineCall call_;
  MatrixOperation operation_;
  size_t batch_dimensions_, matrices_ = 1;
  Extents a_;
  size_t least_;
  lapack::Array<T> work_a_, work_b_, work_c_, values_;
  lapack::Array<int32_t> pivots_;
  lapack::Workspace<T> space_;
};

/// Elements of each result for one matrix; nullopt for s32.
struct Form {
  size_t operands = 1;
  std::vector<size_t> results;  ///< Of `a`'s type, or s32: `integers`.
  std::vector<bool> integers;
};

Form form_of(const RoutineCall& call, MatrixKind kind, const Extents& a,
             size_t batch) {
  const size_t less = std::min(a.rows, a.columns);
  const bool is_call = call.instruction.opcode == Opcode::kCustomCall;
  const auto of = [&](size_t result) {
    const bool has = call.instruction.shape.is_tuple() &&
                     result < call.instruction.shape.elements.size();
    return has ? extents_of(call.result_shape(result), batch) : Extents{};
  };
  switch (kind) {
    case MatrixKind::kCholesky:
      return is_call ? Form{1, {a.elements(), 1}, {false, true}}
                     : Form{1, {a.elements()}, {false}};
    case MatrixKind::kTriangularSolve:
      return {
          2, {extents_of(call.operand_shape(1), batch).elements()}, {false}};
    case MatrixKind::kLu:
      return {1, {a.elements(), less, 1}, {false, true, true}};
    case MatrixKind::kQr:
      return {1, {a.elements(), less}, {false, false}};
    case MatrixKind::kHouseholderProduct:
      return {2, {a.elements()}, {false}};
    case MatrixKind::kSymmetricEigen:
      return {1, {a.elements(), a.rows, 1}, {false, false, true}};
    default:
      return {1,
              {a.elements(), less, a.rows * std::min(of(2).columns, a.rows),
               std::min(of(3).rows, a.columns) * a.columns, 1},
              {false, false, false, false, true}};
  }
}

bool is_square(MatrixKind kind) {
  return kind == MatrixKind::kCholesky ||
         kind == MatrixKind::kTriangularSolve ||
         kind == MatrixKind::kSymmetricEigen;
}

/// The shapes of four operands come back, and one s32 a system.
bool fits_tridiagonal(const RoutineCall& call) {
  const std::vector<int64_t>& diagonal = call.operand_shape(0).dimensions;
  if (diagonal.empty() || call.operands.size() != 4 || call.results.size() != 5)
    return false;
  const PrimitiveType type = call.operand_shape(0).type;
  for (size_t i = 0; i < 4; ++i) {
    std::vector<int64_t> extents = call.operand_shape(i).dimensions;
    if (extents != call.result_shape(i).dimensions ||
        call.operand_shape(i).type != type || call.result_shape(i).type != type)
      return false;
    if (i == 3 && !extents.empty()) extents.pop_back();
    if (extents != diagonal) return false;
  }
  return call.result_shape(4).type == PrimitiveType::kS32 &&
         diagonal.back() > 0 &&
         element_count(call.result_shape(4)) * diagonal.back() ==
             element_count(call.operand_shape(0));
}

/// u and vt whole, or the first of their columns and rows.
bool fits_singular(const RoutineCall& call, const MatrixOperation& operation,
                   const Extents& a, size_t batch) {
  if (operation.kind != MatrixKind::kSingularValues || !operation.vectors)
    return true;
  const size_t u = extents_of(call.result_shape(2), batch).columns;
  const size_t vt = extents_of(call.result_shape(3), batch).rows;
  const size_t less = std::min(a.rows, a.columns);
  return (u == a.rows && vt == a.columns) || (u == less && vt == less);
}

/// All that MatrixRoutine relies on.
bool fits(const RoutineCall& call, const MatrixOperation& operation) {
  if (operation.kind == MatrixKind::kTridiagonalSolve)
    return fits_tridiagonal(call);
  const Shape& shape = call.operand_shape(0);
  if (shape.dimensions.size() < 2 || call.operands.size() > 2) return false;
  const size_t batch = shape.dimensions.size() - 2;
  const Extents a = extents_of(shape, batch);
  const Form form = form_of(call, operation.kind, a, batch);
  if (a.elements() == 0) return false;
  const size_t matrices =
      static_cast<size_t>(element_count(shape)) / a.elements();
  if (call.operands.size() != form.operands ||
      call.results.size() != form.results.size() ||
      (is_square(operation.kind) && a.rows != a.columns))
    return false;
  for (size_t r = 0; r < form.results.size(); ++r) {
    const Shape& result = call.result_shape(r);
    if (result.type != (form.integers[r] ? PrimitiveType::kS32 : shape.type) ||
        extents_of(result, batch).elements() != form.results[r] ||
        static_cast<size_t>(element_count(result)) !=
            matrices * form.results[r])
      return false;
  }
  // What comes back in place of an operand has its rows and columns.
  const bool solves = operation.kind == MatrixKind::kTriangularSolve;
  if (operation.kind != MatrixKind::kSingularValues &&
      call.result_shape(0).dimensions !=
          call.operand_shape(solves ? 1 : 0).dimensions)
    return false;
  if (form.operands == 1) return fits_singular(call, operation, a, batch);
  const Shape& second = call.operand_shape(1);
  const Extents b = extents_of(second, batch);
  if (second.type != shape.type ||
      static_cast<size_t>(element_count(second)) != matrices * b.elements())
    return false;
  if (operation.kind == MatrixKind::kHouseholderProduct)
    return b.columns == 1 && b.rows <= a.columns && a.columns <= a.rows;
  return second.dimensions.size() == batch + 2 &&
         (operation.left ? b.rows : b.columns) == a.rows;
}

}  // namespace

Result<std::unique_ptr<Routine>> make_matrix_routine(const RoutineCall& call) {
  const MatrixOperation operation = matrix_operation(call.instruction);
  if (operation.kind == MatrixKind::kNone) {
    return fail(ErrorKind::kUnsupported, "custom-call '{}' does not run",
                custom_call_target(call.instruction));
  }
  const PrimitiveType type = call.operand_shape(0).type;
  for (size_t i = 0; i < call.operands.size(); ++i) {
    if (element_count(call.operand_shape(i)) >
        std::numeric_limits<int32_t>::max()) {
      return fail(ErrorKind::kUnsupported,
                  "LAPACK counts in 32 bits: arrays of more than 2^31 elements "
                  "are not factored");
    }
  }
  if (type != PrimitiveType::kF32 && type != PrimitiveType::kF64) {
    return fail(ErrorKind::kUnsupported, "matrices of {} are not factored",
                primitive_type_name(type));
  }
  if (!fits(call, operation)) {
    return fail(ErrorKind::kInvalid,
                "its operands and results do not fit together");
  }
  if (Status loaded = lapack::load(); !loaded) return pass(loaded.error());
  if (type == PrimitiveType::kF32)
    return std::make_unique<MatrixRoutine<float>>(call, operation);
  return std::make_unique<MatrixRoutine<double>>(call, operation);
}

}  // namespace reprise
