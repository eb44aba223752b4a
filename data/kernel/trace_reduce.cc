// Reductions whose result is one node: by lanes (a total of the columns), few
// enough elements to be written out, and windows. Their order of elements is
// the numerics contract of kernel.h; a reduction that keeps the minor dimension
// accumulates in memory and is a sink of its nest instead (nest.cc).
#include <algorithm>
#include <string>

#include "data/hlo/combiner.h"
#include "data/hlo/hlo.h"
#include "data/hlo/late_columns.h"
#include "data/hlo/small_dot.h"
#include "data/hlo/window.h"
#include "data/kernel/canonical_maps.h"
#include "data/kernel/trace.h"

namespace reprise {
namespace {

/// Reduce windows larger than this are not written out.
constexpr int64_t kWindowElements = 64;
/// Elements that rows of rows are written out to at most.
constexpr int64_t kMostWrittenOut = 64;

/// Where an operand of a dot is read, but for its contracted dimensions: batch
/// dimensions are the result's first, free ones those from `*next` on.
IndexMap dot_operand_map(size_t rank, const std::vector<int64_t>& batch,
                         const std::vector<int64_t>& contracted,
                         const IndexMap& result, size_t* next) {
  IndexMap map(rank);
  for (size_t d = 0; d < rank; ++d) {
    const auto number = static_cast<int64_t>(d);
    const auto b = std::find(batch.begin(), batch.end(), number);
    if (b != batch.end()) {
      map[d] = result[static_cast<size_t>(b - batch.begin())];
    } else if (std::find(contracted.begin(), contracted.end(), number) ==
               contracted.end()) {
      map[d] = result[(*next)++];
    }
  }
  return map;
}

}  // namespace

int32_t ElementTrace::trace_reduce(const Instruction& reduce,
                                   const IndexMap& map) {
  const Result<ReduceSpec> spec = reduce_spec(group_, reduce);
  if (!spec) {
    fail_with(spec.error().kind, spec.error().message);
    return literal(PrimitiveType::kF32, 0);
  }
  switch (spec->kind) {
    case ReduceKind::kByLanes:
      return trace_lanes(reduce, *spec, map);
    case ReduceKind::kUnrolled:
      return trace_unrolled(reduce, *spec, map);
    case ReduceKind::kSequential:
      break;
  }
  fail_with(ErrorKind::kInfeasible, reduce.name +
                                        ": a reduce that keeps the minor "
                                        "dimension is complete only after its "
                                        "whole kernel");
  return literal(reduce.shape.type, 0);
}

int32_t ElementTrace::trace_lanes(const Instruction& reduce,
                                  const ReduceSpec& spec, const IndexMap& map) {
  const std::optional<IndexMap> inner =
      lane_operand_map(indices_, space_, spec, map);
  if (!inner) {
    fail_with(
        ErrorKind::kInfeasible,
        reduce.name +
            ": its reduced dimensions are not the inner loop of the kernel");
    return literal(reduce.shape.type, 0);
  }
  const int32_t element = value(reduce.operands[0], *inner);
  if (nodes_[static_cast<size_t>(element)].level >= kMaxLevel) {
    fail_with(ErrorKind::kInfeasible,
              reduce.name +
                  ": too many reductions of its rows one after the "
                  "other");
    return element;
  }
  const int32_t sum = total(spec.combine, reduce.shape.type, element);
  return apply(spec.combine, reduce.shape.type, value(reduce.operands[1], {}),
               sum);
}

bool ElementTrace::is_made_again(const IndexMap& map) const {
  uint64_t loops = 0;
  for (const int32_t expression : map) loops |= indices_.at(expression).loops;
  bool depends = false;  // On a loop inside.
  for (size_t i = space_.loops.size(); i-- > 0;) {
    const bool uses = (loops >> space_.loops[i].id & 1) != 0;
    if (depends && !uses) return true;
    depends = depends || uses;
  }
  return false;
}

int32_t ElementTrace::trace_unrolled(const Instruction& reduce,
                                     const ReduceSpec& spec,
                                     const IndexMap& map) {
  if (spec.rows && is_made_again(map)) {
    fail_with(ErrorKind::kInfeasible,
              reduce.name +
                  ": each of its rows would be reduced again and "
                  "again in a loop around them");
    return literal(reduce.shape.type, 0);
  }
  int64_t count = 1;
  for (const int64_t extent : spec.reduced_extents) count *= extent;
  // Where rows have phases nothing runs across them, a sum in order would be
  // one chain of scalars.
  if (spec.rows && (written_out_ * count > kMostWrittenOut ||
                    (space_.columns != 0 && count > kShortRow))) {
    fail_with(ErrorKind::kInfeasible,
              reduce.name +
                  ": its rows are too long to be written out inside "
                  "others or beside sums by lanes");
    return literal(reduce.shape.type, 0);
  }
  int32_t result = value(reduce.operands[1], {});
  if (spec.rows) written_out_ *= count;
  for (int64_t i = 0; i < count; ++i) {
    const IndexMap position =
        indices_.delinearize(indices_.constant(i), spec.reduced_extents);
    IndexMap inner;
    size_t kept = 0, column = 0;
    for (const bool is_reduced : spec.reduced) {
      inner.push_back(is_reduced ? position[column++] : map[kept++]);
    }
    result = apply(spec.combine, reduce.shape.type, result,
                   value(reduce.operands[0], inner));
  }
  if (spec.rows) written_out_ /= count;
  return result;
}

/// A multiply-add for each product, from zero on, in the order of the
/// contracted dimensions.
int32_t ElementTrace::trace_dot(const Instruction& dot, const IndexMap& map) {
  const PrimitiveType type = dot.shape.type;
  if (!is_small_dot(group_.computation(), dot)) {
    fail_with(ErrorKind::kUnsupported,
              dot.name + ": no kernel computes a dot of this size and type");
    return literal(type, 0);
  }
  const DotDimensions at = dot_dimensions(dot);
  const std::vector<int64_t>&lhs = operand_shape(group_, dot, 0).dimensions,
        &rhs = operand_shape(group_, dot, 1).dimensions;
  std::vector<int64_t> extents;
  for (const int64_t d : at.lhs_contracting)
    extents.push_back(lhs[static_cast<size_t>(d)]);
  int64_t count = 1;
  for (const int64_t extent : extents) count *= extent;
  size_t free = at.lhs_batch.size();
  IndexMap left =
      dot_operand_map(lhs.size(), at.lhs_batch, at.lhs_contracting, map, &free);
  IndexMap right =
      dot_operand_map(rhs.size(), at.rhs_batch, at.rhs_contracting, map, &free);
  int32_t sum = literal(type, integer_bits(type, 0));
  for (int64_t i = 0; i < count; ++i) {
    const IndexMap position =
        indices_.delinearize(indices_.constant(i), extents);
    for (size_t c = 0; c < extents.size(); ++c) {
      left[static_cast<size_t>(at.lhs_contracting[c])] = position[c];
      right[static_cast<size_t>(at.rhs_contracting[c])] = position[c];
    }
    sum = apply(Opcode::kMultiplyAdd, type, value(dot.operands[0], left),
                value(dot.operands[1], right), sum);
  }
  return sum;
}

int32_t ElementTrace::trace_window(const Instruction& window,
                                   const IndexMap& map) {
  const auto dimensions = window_dimensions(window);
  const std::optional<Opcode> combine =
      combining_opcode(group_.module(), window);
  int64_t count = 1;
  if (dimensions) {
    for (const WindowDimension& dimension : *dimensions)
      count *= dimension.size;
  }
  if (!dimensions || dimensions->size() != map.size() || !combine ||
      *combine == Opcode::kParameter ||
      !is_computable(*combine, window.shape.type) ||
      window.operands.size() != 2 || count > kWindowElements) {
    fail_with(
        ErrorKind::kUnsupported,
        window.name +
            ": no kernel for this reduce-window (one array, one binary op, at "
            "most 64 elements a window)");
    return literal(PrimitiveType::kF32, 0);
  }
  std::vector<int64_t> sizes;
  for (const WindowDimension& dimension : *dimensions)
    sizes.push_back(dimension.size);
  int32_t result = value(window.operands[1], {});
  const std::vector<int64_t>& extents =
      operand_shape(group_, window, 0).dimensions;
  for (const int64_t i : window_order(window, extents)) {
    const IndexMap position = indices_.delinearize(indices_.constant(i), sizes);
    IndexMap inner;
    int32_t inside = -1;
    for (size_t d = 0; d < sizes.size(); ++d) {
      const WindowDimension& dimension = dimensions->at(d);
      const int64_t step = dimension.base_dilation;
      const int64_t span = (extents[d] - 1) * step;
      const int64_t offset =
          indices_.at(position[d]).constant * dimension.window_dilation -
          dimension.padding_low;
      const int32_t shifted = indices_.add(
          indices_.scale(map[d], dimension.stride), indices_.constant(offset));
      const int32_t place = indices_.clamp(shifted, 0, span);
      inside = both(inside, within(shifted, 0, span));
      if (step > 1)
        inside = both(inside, within(indices_.mod(place, step), 0, 0));
      inner.push_back(indices_.floor_div(place, step));
    }
    const int32_t next = apply(*combine, window.shape.type, result,
                               value(window.operands[0], inner));
    result = inside < 0 ? next
                        : apply(Opcode::kSelect, window.shape.type, inside,
                                next, result);
  }
  return result;
}

}  // namespace reprise
