// Operands are matched from the outside in: through transposes and reshapes as
// long as each still is a strided view of the value behind it, then dimensions
// are sorted into batch, rows and columns and adjacent ones merged where their
// strides allow. Which operand comes first is chosen so that the result's
// columns are contiguous.
#include "data/plan/dot_view.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "data/hlo/hlo.h"

namespace reprise {
namespace {

/// A strided array over some value's storage.
struct StridedArray {
  InstructionId value{};
  std::vector<int64_t> dimensions, strides;
};

/// One merged dimension: extent and stride.
struct Extent {
  int64_t size = 1;
  int64_t stride = 1;
};

/// Merges dimensions (given in order, outermost first) into one; nothing when
/// strides do not nest.
std::optional<Extent> merge(const StridedArray& array,
                            const std::vector<int64_t>& dimensions) {
  std::optional<Extent> merged;
  for (int64_t d : dimensions) {
    const auto at = static_cast<size_t>(d);
    const Extent inner{array.dimensions[at], array.strides[at]};
    if (inner.size == 1) continue;
    if (!merged) {
      merged = inner;
    } else if (merged->stride == inner.stride * inner.size) {
      merged = Extent{merged->size * inner.size, inner.stride};
    } else {
      return std::nullopt;
    }
  }
  return merged ? *merged : Extent{1, 0};
}

/// The dimensions of one side of a dot, by role, in the order of the output.
struct SideDimensions {
  std::vector<int64_t> batch, free, contracting;
};

std::vector<int64_t> free_dimensions(size_t rank,
                                     const std::vector<int64_t>& batch,
                                     const std::vector<int64_t>& contracting) {
  std::vector<int64_t> result;
  for (int64_t d = 0; d < static_cast<int64_t>(rank); ++d) {
    const bool taken =
        std::count(batch.begin(), batch.end(), d) > 0 ||
        std::count(contracting.begin(), contracting.end(), d) > 0;
    if (!taken) result.push_back(d);
  }
  return result;
}

/// One operand as batch extents, rows (the free dimension) and columns (the
/// contracted one).
struct Side {
  InstructionId value{};
  std::vector<Extent> batch;
  Extent free, contracted;
};

std::optional<Side> side_of(const StridedArray& array,
                            const SideDimensions& dimensions,
                            bool need_unit_stride) {
  Side side{.value = array.value, .batch = {}, .free = {}, .contracted = {}};
  const std::optional<Extent> free = merge(array, dimensions.free);
  const std::optional<Extent> contracted = merge(array, dimensions.contracting);
  if (!free || !contracted) return std::nullopt;
  side.free = *free;
  side.contracted = *contracted;
  const bool unit = free->stride == 1 || contracted->stride == 1 ||
                    (free->size == 1 && contracted->size == 1);
  if (need_unit_stride && !unit) return std::nullopt;
  for (int64_t d : dimensions.batch) {
    const auto at = static_cast<size_t>(d);
    side.batch.push_back({array.dimensions[at], array.strides[at]});
  }
  return side;
}

/// Applies one reshape or transpose to a strided array.
bool apply_view(const Instruction& view, StridedArray* array) {
  if (view.opcode == Opcode::kTranspose) {
    const std::vector<int64_t> permutation = integer_list(view, "dimensions");
    StridedArray turned{.value = array->value, .dimensions = {}, .strides = {}};
    for (int64_t d : permutation) {
      turned.dimensions.push_back(array->dimensions[static_cast<size_t>(d)]);
      turned.strides.push_back(array->strides[static_cast<size_t>(d)]);
    }
    *array = std::move(turned);
    return true;
  }
  std::vector<int64_t> strides;
  if (!reshape_strides(array->dimensions, array->strides, view.shape.dimensions,
                       &strides)) {
    return false;
  }
  array->dimensions = view.shape.dimensions;
  array->strides = std::move(strides);
  return true;
}

/// The chain of reshapes and transposes above `operand`, nearest first; the
/// last one is a value.
std::vector<InstructionId> view_chain(
    const Computation& computation, InstructionId operand,
    const std::function<bool(InstructionId)>& is_written) {
  std::vector<InstructionId> chain{operand};
  while (!is_written(chain.back())) {
    const Instruction& top = computation.at(chain.back());
    if (!is_reshape(top.opcode) && top.opcode != Opcode::kTranspose) break;
    chain.push_back(top.operands[0]);
  }
  return chain;
}

/// Folds as much of the view chain as strides can express; what they cannot is
/// left to a kernel.
std::optional<Side> fold_operand(
    const Computation& computation, InstructionId operand,
    const SideDimensions& dimensions,
    const std::function<bool(InstructionId)>& is_written) {
  const std::vector<InstructionId> chain =
      view_chain(computation, operand, is_written);
  for (size_t start = chain.size(); start-- > 0;) {
    const Instruction& base = computation.at(chain[start]);
    // A reshape has no storage of its own: its operand, one step up the chain,
    // was tried.
    if (start + 1 < chain.size() && is_reshape(base.opcode)) continue;
    StridedArray array{chain[start], base.shape.dimensions,
                       row_major_strides(base.shape.dimensions)};
    bool folds = true;
    for (size_t i = start; i-- > 0 && folds;)
      folds = apply_view(computation.at(chain[i]), &array);
    if (!folds) continue;
    // The nearest candidate is the last resort, so it may be slow.
    const bool last =
        start == 0 ||
        std::all_of(chain.begin(),
                    chain.begin() + static_cast<ptrdiff_t>(start),
                    [&](InstructionId id) {
                      return is_reshape(computation.at(id).opcode);
                    });
    if (std::optional<Side> side = side_of(array, dimensions, !last))
      return side;
  }
  return std::nullopt;
}

/// Orders contracting pairs by the lhs's strides, so that both sides merge
/// where they can.
void sort_contracting(const StridedArray& lhs, SideDimensions* left,
                      SideDimensions* right) {
  std::vector<size_t> order(left->contracting.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return lhs.strides[static_cast<size_t>(left->contracting[a])] >
           lhs.strides[static_cast<size_t>(left->contracting[b])];
  });
  SideDimensions sorted_left = *left, sorted_right = *right;
  for (size_t i = 0; i < order.size(); ++i) {
    sorted_left.contracting[i] = left->contracting[order[i]];
    sorted_right.contracting[i] = right->contracting[order[i]];
  }
  *left = std::move(sorted_left);
  *right = std::move(sorted_right);
}

/// The output's storage: row-major, or as the transpose that follows stores it.
StridedArray output_array(const Computation& computation, InstructionId dot,
                          const InstructionId* transpose) {
  const std::vector<int64_t>& dimensions = computation.at(dot).shape.dimensions;
  if (transpose == nullptr)
    return {dot, dimensions, row_major_strides(dimensions)};
  const Instruction& turned = computation.at(*transpose);
  const std::vector<int64_t> strides =
      row_major_strides(turned.shape.dimensions);
  const std::vector<int64_t> permutation = integer_list(turned, "dimensions");
  StridedArray array{*transpose, dimensions,
                     std::vector<int64_t>(dimensions.size())};
  for (size_t i = 0; i < permutation.size(); ++i) {
    array.strides[static_cast<size_t>(permutation[i])] = strides[i];
  }
  return array;
}

/// The output as a Side: free = rows (lhs), contracted = columns (rhs).
std::optional<Side> output_side(const StridedArray& array, size_t batch,
                                size_t rows, bool need_unit_stride) {
  SideDimensions dimensions;
  for (size_t d = 0; d < array.dimensions.size(); ++d) {
    auto& list = d < batch ? dimensions.batch
                           : (d < batch + rows ? dimensions.free
                                               : dimensions.contracting);
    list.push_back(static_cast<int64_t>(d));
  }
  return side_of(array, dimensions, need_unit_stride);
}

/// Drops batch dimensions of one element and merges neighbours that nest in all
/// three matrices.
void merge_batch(Side* lhs, Side* rhs, Side* out) {
  std::vector<Extent> merged[3];
  Side* sides[3] = {lhs, rhs, out};
  for (size_t d = 0; d < out->batch.size(); ++d) {
    if (out->batch[d].size == 1) continue;
    bool nests = !merged[0].empty();
    for (size_t s = 0; s < 3 && nests; ++s) {
      const Extent inner = sides[s]->batch[d];
      nests = merged[s].back().stride == inner.stride * inner.size;
    }
    for (size_t s = 0; s < 3; ++s) {
      const Extent inner = sides[s]->batch[d];
      if (nests) {
        merged[s].back() = {merged[s].back().size * inner.size, inner.stride};
      } else {
        merged[s].push_back(inner);
      }
    }
  }
  for (size_t s = 0; s < 3; ++s) sides[s]->batch = std::move(merged[s]);
}

StridedMatrix matrix_of(const Side& side, Extent rows, Extent columns) {
  StridedMatrix matrix{.value = side.value, .dimensions = {}, .strides = {}};
  for (const Extent& extent : side.batch) {
    matrix.dimensions.push_back(extent.size);
    matrix.strides.push_back(extent.stride);
  }
  // The stride of a one-element dimension is free: give it the one of a dense
  // matrix.
  if (columns.size == 1)
    columns.stride = rows.stride == 1 && rows.size > 1 ? rows.size : 1;
  if (rows.size == 1) rows.stride = columns.stride * columns.size;
  matrix.dimensions.insert(matrix.dimensions.end(), {rows.size, columns.size});
  matrix.strides.insert(matrix.strides.end(), {rows.stride, columns.stride});
  return matrix;
}

DotView assemble(const Computation& computation, InstructionId dot, Side lhs,
                 Side rhs, Side out) {
  // rhs sides come as (free = columns, contracted = rows).
  const bool swap = out.contracted.stride != 1 && out.contracted.size != 1 &&
                    (out.free.stride == 1 || out.free.size == 1);
  if (swap) {
    std::swap(lhs, rhs);
    std::swap(out.free, out.contracted);
  }
  merge_batch(&lhs, &rhs, &out);
  return {.dot = dot,
          .type = computation.at(computation.at(dot).operands[0]).shape.type,
          .result_type = computation.at(dot).shape.type,
          .lhs = matrix_of(lhs, lhs.free, lhs.contracted),
          .rhs = matrix_of(rhs, rhs.contracted, rhs.free),
          .out = matrix_of(out, out.free, out.contracted)};
}

/// 16 bits are summed in f32. On processors f16 and f64 are left to routines,
/// which add up as XLA does there.
bool multiplies(PrimitiveType type, LoweredFor device) {
  switch (type) {
    case PrimitiveType::kF32:
    case PrimitiveType::kBF16:
      return true;
    case PrimitiveType::kF16:
    case PrimitiveType::kF64:
      return device != LoweredFor::kProcessor;
    default:
      return false;
  }
}

Status check_types(const Computation& computation, const Instruction& dot,
                   LoweredFor device) {
  const PrimitiveType type = dot.shape.type;
  const PrimitiveType left = computation.at(dot.operands[0]).shape.type;
  const bool runs = multiplies(left, device);
  const bool may_widen = primitive_type_bits(left) == 16;
  for (const InstructionId operand : dot.operands) {
    const Shape& shape = computation.at(operand).shape;
    if (runs && shape.type == left &&
        (type == left || (may_widen && type == PrimitiveType::kF32)))
      continue;
    return fail(ErrorKind::kUnsupported,
                "{}: no library multiplies {} giving {}", dot.name,
                primitive_type_name(shape.type), primitive_type_name(type));
  }
  return {};
}

}  // namespace

std::vector<int64_t> row_major_strides(const std::vector<int64_t>& dimensions) {
  std::vector<int64_t> strides(dimensions.size(), 1);
  for (size_t i = dimensions.size(); i-- > 1;)
    strides[i - 1] = strides[i] * dimensions[i];
  return strides;
}

bool reshape_strides(const std::vector<int64_t>& dimensions,
                     const std::vector<int64_t>& strides,
                     const std::vector<int64_t>& new_dimensions,
                     std::vector<int64_t>* new_strides) {
  std::vector<Extent> old;
  for (size_t i = 0; i < dimensions.size(); ++i) {
    if (dimensions[i] != 1) old.push_back({dimensions[i], strides[i]});
  }
  new_strides->assign(new_dimensions.size(), 1);
  size_t old_begin = 0, new_begin = 0;
  while (old_begin < old.size() && new_begin < new_dimensions.size()) {
    // The shortest runs of old and new dimensions with equal element counts.
    size_t old_end = old_begin + 1, new_end = new_begin + 1;
    int64_t old_count = old[old_begin].size,
            new_count = new_dimensions[new_begin];
    while (old_count != new_count) {
      if (new_count < old_count) {
        if (new_end == new_dimensions.size()) return false;
        new_count *= new_dimensions[new_end++];
      } else {
        if (old_end == old.size()) return false;
        old_count *= old[old_end++].size;
      }
    }
    const std::span<const Extent> run(&old[old_begin], old_end - old_begin);
    const auto is_broken = [](const Extent& outer, const Extent& inner) {
      return outer.stride != inner.stride * inner.size;
    };
    if (std::adjacent_find(run.begin(), run.end(), is_broken) != run.end())
      return false;
    int64_t stride = old[old_end - 1].stride;
    for (size_t i = new_end; i-- > new_begin;) {
      (*new_strides)[i] = stride;
      stride *= new_dimensions[i];
    }
    old_begin = old_end;
    new_begin = new_end;
  }
  return true;
}

Result<DotView> view_dot(const Computation& computation, InstructionId dot,
                         const InstructionId* only_user_transpose,
                         const std::function<bool(InstructionId)>& is_written,
                         LoweredFor device) {
  const Instruction& instruction = computation.at(dot);
  Status types = check_types(computation, instruction, device);
  if (!types) return pass(types.error());
  const DotDimensions numbers = dot_dimensions(instruction);
  const Shape& left_shape = computation.at(instruction.operands[0]).shape;
  const Shape& right_shape = computation.at(instruction.operands[1]).shape;
  SideDimensions left{numbers.lhs_batch, {}, numbers.lhs_contracting};
  SideDimensions right{numbers.rhs_batch, {}, numbers.rhs_contracting};
  left.free = free_dimensions(left_shape.dimensions.size(), left.batch,
                              left.contracting);
  right.free = free_dimensions(right_shape.dimensions.size(), right.batch,
                               right.contracting);
  sort_contracting({instruction.operands[0], left_shape.dimensions,
                    row_major_strides(left_shape.dimensions)},
                   &left, &right);

  const std::optional<Side> lhs =
      fold_operand(computation, instruction.operands[0], left, is_written);
  const std::optional<Side> rhs =
      fold_operand(computation, instruction.operands[1], right, is_written);
  std::optional<Side> out;
  if (only_user_transpose != nullptr) {
    out = output_side(output_array(computation, dot, only_user_transpose),
                      left.batch.size(), left.free.size(), true);
  }
  if (!out) {
    out = output_side(output_array(computation, dot, nullptr),
                      left.batch.size(), left.free.size(), false);
  }
  if (!lhs || !rhs || !out) {
    return fail(ErrorKind::kUnsupported,
                "{}: the dimensions of this dot do not form strided matrices; "
                "transpose its "
                "operands so that contracted dimensions stand together",
                instruction.name);
  }
  return assemble(computation, dot, *lhs, *rhs, *out);
}

}  // namespace reprise
