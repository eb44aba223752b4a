// cholesky, triangular-solve and the LAPACK calls of JAX, matrix by matrix;
// computed in f64, each result rounded once.
#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <optional>
#include <utility>

#include "data/hlo/hlo.h"
#include "data/hlo/matrix_operation.h"
#include "runtime/cpu/array_view.h"
#include "runtime/cpu/matrix_factorization.h"
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

class MatrixRoutine final : public Routine {
 public:
  MatrixRoutine(const RoutineCall& call, const MatrixOperation& operation)
      : call_(call),
        operation_(operation),
        batch_dimensions_(batch_dimensions(call, operation.kind)) {
    const std::vector<int64_t>& all = call.operand_shape(0).dimensions;
    for (size_t d = 0; d < batch_dimensions_; ++d)
      matrices_ *= static_cast<size_t>(all[d]);
  }

  bool run() override {
    for (matrix_ = 0; matrix_ < matrices_; ++matrix_) compute();
    return true;
  }

 private:
  void compute() {
    switch (operation_.kind) {
      case MatrixKind::kCholesky:
        return cholesky();
      case MatrixKind::kTriangularSolve:
        return triangular_solve();
      case MatrixKind::kLu:
        return lu();
      case MatrixKind::kQr: {
        DenseMatrix a = operand(0);
        const std::vector<double> tau = factor_qr(&a);
        put(0, a.values);
        return put(1, tau);
      }
      case MatrixKind::kHouseholderProduct: {
        DenseMatrix a = operand(0);
        householder_product(operand(1).values, &a);
        return put(0, a.values);
      }
      case MatrixKind::kSymmetricEigen:
        return eigen();
      case MatrixKind::kTridiagonalSolve:
        return tridiagonal_solve();
      default:
        return singular();
    }
  }

  void cholesky() {
    DenseMatrix a = operand(0);
    if (!operation_.lower) a = a.transpose();
    const int32_t info = factor_cholesky(&a);
    if (!operation_.lower) a = a.transpose();
    put(0, a.values);
    put_integers(1, {info});
  }

  /// x a = b is aᵀ xᵀ = bᵀ.
  void triangular_solve() {
    DenseMatrix a = operand(0), b = operand(1);
    const bool turned = operation_.transposed != !operation_.left;
    if (turned) a = a.transpose();
    if (!operation_.left) b = b.transpose();
    solve_triangular(a, operation_.lower != turned, operation_.unit_diagonal,
                     &b);
    if (!operation_.left) b = b.transpose();
    put(0, b.values);
  }

  void lu() {
    DenseMatrix a = operand(0);
    std::vector<int32_t> pivots;
    const int32_t info = factor_lu(&a, &pivots);
    put(0, a.values);
    put_integers(1, pivots);
    put_integers(2, {info});
  }

  void eigen() {
    DenseMatrix a = operand(0);
    for (size_t i = 0; i < a.rows; ++i) {
      for (size_t j = 0; j < i; ++j)
        operation_.lower ? a(j, i) = a(i, j) : a(i, j) = a(j, i);
    }
    const std::vector<double> values = symmetric_eigen(&a);
    put(0, a.values);
    put(1, values);
    put_integers(2, {0});
  }

  void singular() {
    const auto found = singular_values(operand(0), result_extents(2).columns,
                                       result_extents(3).rows);
    put(1, found.values);
    if (operation_.vectors) {
      put(2, found.u.values);
      put(3, found.vt.values);
    }
    put_integers(4, {0});
  }

  void tridiagonal_solve() {
    std::array<std::vector<double>, 3> diagonals;
    for (size_t i = 0; i < 3; ++i) diagonals[i] = operand(i).values;
    DenseMatrix b = operand(3);
    const int32_t info =
        solve_tridiagonal(&diagonals[0], &diagonals[1], &diagonals[2], &b);
    for (size_t i = 0; i < 3; ++i) put(i, diagonals[i]);
    put(3, b.values);
    put_integers(4, {info});
  }

  Extents result_extents(size_t result) const {
    return extents_of(call_.result_shape(result), batch_dimensions_);
  }

  DenseMatrix operand(size_t number) const {
    const Shape& shape = call_.operand_shape(number);
    const Extents extents = extents_of(shape, batch_dimensions_);
    DenseMatrix matrix(extents.rows, extents.columns);
    const std::byte* from = call_.operands[number].data() +
                            matrix_ * extents.elements() * element_bytes(shape);
    if (shape.type == PrimitiveType::kF64) {
      std::memcpy(matrix.values.data(), from, extents.elements() * 8);
      return matrix;
    }
    for (size_t i = 0; i < matrix.values.size(); ++i) {
      float value = 0;
      std::memcpy(&value, from + i * sizeof value, sizeof value);
      matrix.values[i] = value;
    }
    return matrix;
  }

  template <typename T, typename From>
  void write(size_t result, const std::vector<From>& values) const {
    std::byte* to = call_.results[result].data() +
                    matrix_ * result_extents(result).elements() * sizeof(T);
    for (size_t i = 0; i < values.size(); ++i) {
      const auto value = static_cast<T>(values[i]);
      std::memcpy(to + i * sizeof value, &value, sizeof value);
    }
  }

  void put(size_t result, const std::vector<double>& values) const {
    if (call_.results[result].empty()) return;
    if (call_.result_shape(result).type == PrimitiveType::kF64) {
      write<double>(result, values);
    } else {
      write<float>(result, values);
    }
  }

  /// Of an opcode of XLA's own there is no such result.
  void put_integers(size_t result, const std::vector<int32_t>& values) const {
    if (result >= call_.results.size() || call_.results[result].empty()) return;
    write<int32_t>(result, values);
  }

  RoutineCall call_;
  MatrixOperation operation_;
  size_t batch_dimensions_, matrices_ = 1, matrix_ = 0;
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
         element_count(call.result_shape(4)) * diagonal.back() ==
             element_count(call.operand_shape(0));
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
  const size_t matrices =
      static_cast<size_t>(element_count(shape)) / a.elements();
  if (call.operands.size() != form.operands ||
      call.results.size() != form.results.size() ||
      (is_square(operation.kind) && a.rows != a.columns))
    return false;
  for (size_t r = 0; r < form.results.size(); ++r) {
    const Shape& result = call.result_shape(r);
    if (result.type != (form.integers[r] ? PrimitiveType::kS32 : shape.type) ||
        static_cast<size_t>(element_count(result)) !=
            matrices * form.results[r])
      return false;
  }
  if (form.operands == 1) return true;
  const Shape& second = call.operand_shape(1);
  const Extents b = extents_of(second, batch);
  if (second.type != shape.type ||
      static_cast<size_t>(element_count(second)) != matrices * b.elements())
    return false;
  if (operation.kind == MatrixKind::kHouseholderProduct)
    return b.columns == 1 && b.rows <= std::min(a.rows, a.columns);
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
  if (type != PrimitiveType::kF32 && type != PrimitiveType::kF64) {
    return fail(ErrorKind::kUnsupported, "matrices of {} are not factored",
                primitive_type_name(type));
  }
  if (!fits(call, operation)) {
    return fail(ErrorKind::kInvalid,
                "its operands and results do not fit together");
  }
  return std::make_unique<MatrixRoutine>(call, operation);
}

}  // namespace reprise
