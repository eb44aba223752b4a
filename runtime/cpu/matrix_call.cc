// Shapes are checked once, so that a routine relies on them: batch dimensions,
// then those of a matrix or a vector.
#include "runtime/cpu/matrix_call.h"

#include <algorithm>
#include <limits>
#include <vector>

namespace reprise {
namespace {

using Dimensions = std::vector<int64_t>;
using enum MatrixResult;

constexpr MatrixResult kFactor[] = {kNumbers, kIntegers};
constexpr MatrixResult kSolution[] = {kNumbers};
constexpr MatrixResult kLuFactors[] = {kNumbers, kIntegers, kIntegers};
constexpr MatrixResult kReflectors[] = {kNumbers, kNumbers};
constexpr MatrixResult kEigen[] = {kNumbers, kReals, kIntegers};
constexpr MatrixResult kSingular[] = {kNumbers, kReals, kNumbers, kNumbers,
                                      kIntegers};
constexpr MatrixResult kTridiagonal[] = {kNumbers, kNumbers, kNumbers, kNumbers,
                                         kIntegers};

std::span<const MatrixResult> results_of(const MatrixOperation& operation) {
  switch (operation.kind) {
    case MatrixKind::kCholesky:
      return kFactor;
    case MatrixKind::kLu:
      return kLuFactors;
    case MatrixKind::kQr:
      return kReflectors;
    case MatrixKind::kSymmetricEigen:
      return kEigen;
    case MatrixKind::kSingularValues:
      return kSingular;
    case MatrixKind::kTridiagonalSolve:
      return operation.solution_alone ? std::span<const MatrixResult>(kSolution)
                                      : kTridiagonal;
    default:
      return kSolution;
  }
}

size_t operands_of(MatrixKind kind) {
  switch (kind) {
    case MatrixKind::kTriangularSolve:
    case MatrixKind::kHouseholderProduct:
      return 2;
    case MatrixKind::kTridiagonalSolve:
      return 4;
    default:
      return 1;
  }
}

MatrixExtents extents_of(const Shape& shape, size_t batch_dimensions) {
  const Dimensions& all = shape.dimensions;
  MatrixExtents extents;
  if (all.size() > batch_dimensions)
    extents.rows = static_cast<size_t>(all[batch_dimensions]);
  if (all.size() > batch_dimensions + 1)
    extents.columns = static_cast<size_t>(all[batch_dimensions + 1]);
  return extents;
}

}  // namespace

MatrixCall::MatrixCall(const RoutineCall& call)
    : call_(call),
      operation_(matrix_operation(call.instruction)),
      kinds_(results_of(operation_)) {}

PrimitiveType MatrixCall::type() const { return operand_shape(0).type; }

size_t MatrixCall::results() const {
  // XLA's own cholesky says nothing of where it stopped.
  return call_.instruction.opcode == Opcode::kCholesky ? 1 : kinds_.size();
}

size_t MatrixCall::first_result(size_t result) const {
  size_t place = result;
  if (operation_.complex)
    place += static_cast<size_t>(
        std::count(kinds_.begin(),
                   kinds_.begin() + static_cast<ptrdiff_t>(result), kNumbers));
  return place;
}

const Shape& MatrixCall::operand_shape(size_t operand) const {
  return call_.operand_shape(first_operand(operand));
}
const Shape& MatrixCall::result_shape(size_t result) const {
  return call_.result_shape(first_result(result));
}

MatrixExtents MatrixCall::operand_extents(size_t operand) const {
  return extents_of(operand_shape(operand), batch_dimensions_);
}
MatrixExtents MatrixCall::result_extents(size_t result) const {
  return extents_of(result_shape(result), batch_dimensions_);
}

bool MatrixCall::is_dropped(size_t result) const {
  if (result >= results()) return true;
  const size_t first = first_result(result);
  return call_.results[first].empty() &&
         (kinds_[result] != kNumbers || !operation_.complex ||
          call_.results[first + 1].empty());
}

/// As many arrays as there are to be, of types that fit the first one's.
bool MatrixCall::has_types() const {
  if (call_.operands.size() != operands_of(operation_.kind) * parts())
    return false;
  for (size_t i = 0; i < call_.operands.size(); ++i) {
    const Shape& whole = operand_shape(i / parts());
    const Shape& part = call_.operand_shape(i);
    if (part.type != type() || part.dimensions != whole.dimensions)
      return false;
  }
  if (call_.results.size() != first_result(results())) return false;
  for (size_t r = 0; r < results(); ++r) {
    const size_t count = kinds_[r] == kNumbers ? parts() : 1;
    for (size_t part = 0; part < count; ++part) {
      const Shape& shape = call_.result_shape(first_result(r) + part);
      if (shape.type != (kinds_[r] == kIntegers ? PrimitiveType::kS32 : type()))
        return false;
      if (shape.dimensions != result_shape(r).dimensions) return false;
    }
  }
  return true;
}

/// The shapes of four operands come back, and one s32 a system; or that of the
/// right sides alone.
bool MatrixCall::fits_tridiagonal() const {
  const bool alone = operation_.solution_alone;
  const Dimensions& diagonal = operand_shape(0).dimensions;
  for (size_t i = 0; i < 4; ++i) {
    Dimensions extents = operand_shape(i).dimensions;
    const bool comes_back = !alone || i == 3;
    if (comes_back && extents != result_shape(alone ? 0 : i).dimensions)
      return false;
    if (i == 3 && !extents.empty()) extents.pop_back();
    if (extents != diagonal) return false;
  }
  return diagonal.back() > 0 &&
         (alone || result_shape(4).dimensions ==
                       Dimensions(diagonal.begin(), diagonal.end() - 1));
}

/// The second operand: right sides, or the factors of reflectors.
bool MatrixCall::fits_second() const {
  const Dimensions& second = operand_shape(1).dimensions;
  const MatrixExtents a = operand_extents(0), b = operand_extents(1);
  if (!std::equal(operand_shape(0).dimensions.begin(),
                  operand_shape(0).dimensions.begin() +
                      static_cast<ptrdiff_t>(batch_dimensions_),
                  second.begin(),
                  second.begin() + static_cast<ptrdiff_t>(std::min(
                                       batch_dimensions_, second.size()))))
    return false;
  if (operation_.kind == MatrixKind::kHouseholderProduct)
    return second.size() == batch_dimensions_ + 1 && b.rows <= a.columns &&
           a.columns <= a.rows;
  return second.size() == batch_dimensions_ + 2 &&
         (operation_.left ? b.rows : b.columns) == a.rows;
}

bool MatrixCall::fits() const {
  if (!has_types()) return false;
  const bool is_tridiagonal = operation_.kind == MatrixKind::kTridiagonalSolve;
  if (is_tridiagonal) return fits_tridiagonal();
  const Dimensions& whole = operand_shape(0).dimensions;
  const Dimensions batch(
      whole.begin(), whole.begin() + static_cast<ptrdiff_t>(batch_dimensions_));
  const auto of = [&](std::initializer_list<size_t> extents) {
    Dimensions all = batch;
    for (const size_t extent : extents)
      all.push_back(static_cast<int64_t>(extent));
    return all;
  };
  const auto is = [&](size_t result, const Dimensions& dimensions) {
    return result >= results() || result_shape(result).dimensions == dimensions;
  };
  const MatrixExtents a = operand_extents(0);
  const size_t less = std::min(a.rows, a.columns);
  if (a.elements() == 0) return false;
  const bool is_square = a.rows == a.columns;
  switch (operation_.kind) {
    case MatrixKind::kCholesky:
      return is_square && is(0, whole) && is(1, batch);
    case MatrixKind::kTriangularSolve:
      return is_square && fits_second() && is(0, operand_shape(1).dimensions);
    case MatrixKind::kLu:
      return is(0, whole) && is(1, of({less})) && is(2, batch);
    case MatrixKind::kQr:
      return is(0, whole) && is(1, of({less}));
    case MatrixKind::kHouseholderProduct:
      return fits_second() && is(0, whole);
    case MatrixKind::kSymmetricEigen:
      return is_square && is(0, whole) && is(1, of({a.rows})) && is(2, batch);
    default:
      break;
  }
  // u and vt whole, or the first of their columns and rows.
  const bool has_values = is(0, whole) && is(1, of({less})) && is(4, batch);
  if (!operation_.vectors) return has_values;
  const size_t u = result_extents(u_result()).columns;
  const MatrixExtents right = result_extents(v_result());
  const bool by_columns = operation_.singular == SingularVectors::kUV;
  const size_t vt = by_columns ? right.columns : right.rows;
  const bool is_whole = u == a.rows && vt == a.columns;
  return has_values && is(u_result(), of({a.rows, u})) &&
         is(v_result(),
            by_columns ? of({a.columns, vt}) : of({vt, a.columns})) &&
         (is_whole || (u == less && vt == less));
}

Result<MatrixCall> MatrixCall::make(const RoutineCall& call) {
  MatrixCall made(call);
  for (size_t i = 0; i < call.operands.size(); ++i) {
    if (element_count(call.operand_shape(i)) >
        std::numeric_limits<int32_t>::max()) {
      return fail(ErrorKind::kUnsupported,
                  "LAPACK counts in 32 bits: arrays of more than 2^31 elements "
                  "are not factored");
    }
  }
  const Shape& first = call.operand_shape(0);
  if (first.type != PrimitiveType::kF32 && first.type != PrimitiveType::kF64) {
    return fail(ErrorKind::kUnsupported, "matrices of {} are not factored",
                primitive_type_name(first.type));
  }
  const size_t own =
      made.operation_.kind == MatrixKind::kTridiagonalSolve ? 1 : 2;
  const bool has_matrix = first.dimensions.size() >= own;
  made.batch_dimensions_ = has_matrix ? first.dimensions.size() - own : 0;
  if (!has_matrix || !made.fits()) {
    return fail(ErrorKind::kInvalid,
                "its operands and results do not fit together");
  }
  for (size_t d = 0; d < made.batch_dimensions_; ++d)
    made.matrices_ *= static_cast<size_t>(first.dimensions[d]);
  return made;
}

}  // namespace reprise
