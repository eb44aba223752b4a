// Shapes are checked once, so that a routine relies on them: batch dimensions,
// then those of a matrix or a vector.
#include "runtime/cpu/matrix_call.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>
#include <vector>

namespace reprise {
namespace {

using Dimensions = std::vector<int64_t>;

size_t parts_of(MatrixArray holds, bool complex) {
  return holds == MatrixArray::kComplex ||
                 (holds == MatrixArray::kNumbers && complex)
             ? 2
             : 1;
}

/// What the letters of a form stand for, as far as arrays were met.
class Extents {
 public:
  explicit Extents(Dimensions batch) : batch_(std::move(batch)) {}

  bool fit(std::string_view letters, const Dimensions& dimensions) {
    if (letters == kAnyExtents) return true;
    if (dimensions.size() != batch_.size() + letters.size() ||
        !std::equal(batch_.begin(), batch_.end(), dimensions.begin()))
      return false;
    const std::span own = std::span(dimensions).last(letters.size());
    for (size_t i = 0; i < own.size(); ++i) {
      if (stands_for_.try_emplace(letters[i], own[i]).first->second != own[i])
        return false;
    }
    if (stands_for_.contains('k')) return true;
    stands_for_['k'] = *std::ranges::min_element(own);
    stands_for_['p'] = own.back() - 1;
    return true;
  }

  int64_t at(char letter) const { return stands_for_.at(letter); }

 private:
  Dimensions batch_;
  std::map<char, int64_t> stands_for_;
};

/// What letters alone do not say.
bool fits_kind(const MatrixOperation& operation, const Extents& extents) {
  switch (operation.kind) {
    case MatrixKind::kHouseholderProduct:
      return extents.at('r') <= extents.at('n') &&
             extents.at('n') <= extents.at('m');
    case MatrixKind::kReflectorProduct:
      return extents.at('r') <= extents.at('k');
    case MatrixKind::kHessenberg:
      return 1 <= operation.low && operation.low <= operation.high &&
             operation.high <= extents.at('n');
    case MatrixKind::kSingularValues: {
      if (!operation.vectors) return true;
      // u and vt whole, or the first of their columns and rows.
      const int64_t u = extents.at('u'), v = extents.at('v');
      return (u == extents.at('m') && v == extents.at('n')) ||
             (u == extents.at('k') && v == u);
    }
    default:
      return true;
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
      form_(matrix_form(operation_)) {
  // XLA's own cholesky says nothing of where it stopped.
  if (call.instruction.opcode == Opcode::kCholesky)
    form_.results = form_.results.first(1);
}

PrimitiveType MatrixCall::type() const { return operand_shape(0).type; }

size_t MatrixCall::arrays_before(std::span<const ArrayForm> all,
                                 size_t place) const {
  size_t arrays = 0;
  for (const ArrayForm& form : all.first(place))
    arrays += parts_of(form.holds, operation_.complex);
  return arrays;
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
  if (result >= form_.results.size()) return true;
  for (size_t i = first_result(result); i < first_result(result + 1); ++i) {
    if (!call_.results[i].empty()) return false;
  }
  return true;
}

Status MatrixCall::check_counts() const {
  const size_t takes = first_operand(form_.operands.size());
  const size_t gives = first_result(form_.results.size());
  if (takes == call_.operands.size() && gives == call_.results.size())
    return {};
  return fail(ErrorKind::kInvalid,
              "its operands and results do not fit together: they are {} and "
              "{} arrays, not {} and {}",
              call_.operands.size(), call_.results.size(), takes, gives);
}

/// Requires: check_counts.
Status MatrixCall::check_shapes() const {
  const Dimensions& first = operand_shape(0).dimensions;
  Extents extents({first.begin(),
                   first.begin() + static_cast<ptrdiff_t>(batch_dimensions_)});
  const auto fits = [&](MatrixArray holds, std::string_view letters,
                        const Shape& shape) {
    const bool integers = holds == MatrixArray::kIntegers;
    return shape.type == (integers ? PrimitiveType::kS32 : type()) &&
           extents.fit(letters, shape.dimensions);
  };
  const auto refuse = [](const char* what, size_t place, const Shape& shape) {
    return fail(ErrorKind::kInvalid,
                "its operands and results do not fit together: {} {} is {}",
                what, place, shape_text(shape, false));
  };
  for (size_t i = 0; i < form_.operands.size(); ++i) {
    for (size_t at = first_operand(i); at < first_operand(i + 1); ++at) {
      const Shape& shape = call_.operand_shape(at);
      if (!fits(form_.operands[i].holds, form_.operands[i].extents, shape))
        return refuse("operand", at, shape);
    }
  }
  for (size_t r = 0; r < form_.results.size(); ++r) {
    for (size_t at = first_result(r); at < first_result(r + 1); ++at) {
      const Shape& shape = call_.result_shape(at);
      if (!fits(form_.results[r].holds, form_.results[r].extents, shape))
        return refuse("result", at, shape);
    }
  }
  if (fits_kind(operation_, extents)) return {};
  return fail(ErrorKind::kInvalid,
              "its operands and results do not fit together: the extents of "
              "its matrices");
}

Result<MatrixCall> MatrixCall::make(const RoutineCall& call) {
  MatrixCall made(call);
  if (Status counts = made.check_counts(); !counts) return pass(counts.error());
  const auto is_large = [](const Shape& shape) {
    return element_count(shape) > std::numeric_limits<int32_t>::max();
  };
  bool any_large = false;
  for (size_t i = 0; i < call.operands.size(); ++i)
    any_large = any_large || is_large(call.operand_shape(i));
  for (size_t i = 0; i < call.results.size(); ++i)
    any_large = any_large || is_large(call.result_shape(i));
  if (any_large) {
    return fail(ErrorKind::kUnsupported,
                "LAPACK counts in 32 bits: arrays of more than 2^31 elements "
                "are not factored");
  }
  const Shape& first = call.operand_shape(0);
  if (first.type != PrimitiveType::kF32 && first.type != PrimitiveType::kF64) {
    return fail(ErrorKind::kUnsupported, "matrices of {} are not factored",
                primitive_type_name(first.type));
  }
  const size_t own = made.form_.operands[0].extents.size();
  if (first.dimensions.size() < own) {
    return fail(ErrorKind::kInvalid, "{} is no matrix",
                shape_text(first, false));
  }
  made.batch_dimensions_ = first.dimensions.size() - own;
  if (Status shapes = made.check_shapes(); !shapes) return pass(shapes.error());
  for (size_t d = 0; d < made.batch_dimensions_; ++d)
    made.matrices_ *= static_cast<size_t>(first.dimensions[d]);
  return made;
}

}  // namespace reprise
