// Checks of operations that move or combine array elements by index: the rules
// of XLA's shape inference, one function an opcode, in a table by opcode.
#include <algorithm>

#include "data/hlo/hlo.h"
#include "data/hlo/hlo_checks.h"
#include "data/hlo/window.h"

namespace reprise {
namespace {

using Dimensions = std::vector<int64_t>;

size_t rank_of(const Shape& shape) { return shape.dimensions.size(); }

int64_t extent(const Shape& shape, int64_t dimension) {
  return shape.dimensions[static_cast<size_t>(dimension)];
}

Status check_broadcast(const CheckedInstruction& checked) {
  const Shape& operand = checked.operand(0);
  const auto dimensions =
      checked.dimensions("dimensions", rank_of(checked.result()));
  if (!dimensions) return tl::unexpected<Error>(dimensions.error());
  if (dimensions->size() != rank_of(operand)) {
    return checked.invalid(fmt::format(
        "broadcast of {} needs {} dimensions, found {}",
        shape_text(operand, false), rank_of(operand), dimensions->size()));
  }
  Dimensions expected;
  for (const int64_t dimension : *dimensions) {
    expected.push_back(extent(checked.result(), dimension));
  }
  return checked.expect_extents("operand", operand, expected);
}

Status check_reshape(const CheckedInstruction& checked) {
  if (element_count(checked.operand(0)) == element_count(checked.result()))
    return {};
  return checked.invalid(
      fmt::format("{} of {} to {} changes the number of elements",
                  opcode_name(checked.instruction.opcode),
                  shape_text(checked.operand(0), false),
                  shape_text(checked.result(), false)));
}

/// The same bytes read as another array. Source: HandleBitcast in XLA's
/// hlo_verifier.cc.
Status check_bitcast(const CheckedInstruction& checked) {
  if (byte_size(checked.operand(0)) == byte_size(checked.result())) return {};
  return checked.invalid(
      fmt::format("bitcast of {} to {} changes the number of bytes",
                  shape_text(checked.operand(0), false),
                  shape_text(checked.result(), false)));
}

/// Elements of one width keep the extents; several narrow ones make a wide one
/// along the last dimension.
Status check_bitcast_convert(const CheckedInstruction& checked) {
  const Shape& operand = checked.operand(0);
  const int from = primitive_type_bits(operand.type);
  const int to = primitive_type_bits(checked.result().type);
  Dimensions expected = operand.dimensions;
  if (from > to) expected.push_back(from / to);
  if (from < to) {
    if (expected.empty() || expected.back() != to / from) {
      return checked.invalid(
          fmt::format("bitcast-convert of {} to {} needs {} in its last "
                      "dimension",
                      shape_text(operand, false),
                      shape_text(checked.result(), false), to / from));
    }
    expected.pop_back();
  }
  return checked.expect_extents("result", checked.result(), expected);
}

Status check_transpose(const CheckedInstruction& checked) {
  const Shape& operand = checked.operand(0);
  const auto dimensions = checked.dimensions("dimensions", rank_of(operand));
  if (!dimensions) return tl::unexpected<Error>(dimensions.error());
  if (dimensions->size() != rank_of(operand)) {
    return checked.invalid(fmt::format("transpose of {} lists {} dimensions",
                                       shape_text(operand, false),
                                       dimensions->size()));
  }
  Dimensions expected;
  for (const int64_t dimension : *dimensions)
    expected.push_back(extent(operand, dimension));
  return checked.expect_extents("result", checked.result(), expected);
}

Status check_reverse(const CheckedInstruction& checked) {
  const auto dimensions =
      checked.dimensions("dimensions", rank_of(checked.operand(0)));
  if (!dimensions) return tl::unexpected<Error>(dimensions.error());
  return checked.expect_extents("result", checked.result(),
                                checked.operand(0).dimensions);
}

Status check_concatenate(const CheckedInstruction& checked) {
  const auto dimensions =
      checked.dimensions("dimensions", rank_of(checked.result()));
  if (!dimensions) return tl::unexpected<Error>(dimensions.error());
  if (dimensions->size() != 1)
    return checked.invalid("concatenate needs one dimension");
  const auto along = static_cast<size_t>((*dimensions)[0]);
  int64_t total = 0;
  for (size_t i = 0; i < checked.operand_count(); ++i) {
    const Shape& operand = checked.operand(i);
    Dimensions expected = checked.result().dimensions;
    if (rank_of(operand) == expected.size())
      expected[along] = operand.dimensions[along];
    const auto same =
        checked.expect_extents(fmt::format("operand {}", i), operand, expected);
    if (!same) return same;
    if (__builtin_add_overflow(total, operand.dimensions[along], &total)) break;
  }
  Dimensions expected = checked.result().dimensions;
  expected[along] = total;
  return checked.expect_extents("result", checked.result(), expected);
}

Status check_slice(const CheckedInstruction& checked) {
  const Shape& operand = checked.operand(0);
  const auto slices = slice_dimensions(checked.instruction);
  if (!slices) return tl::unexpected<Error>(slices.error());
  if (slices->size() != rank_of(operand)) {
    return checked.invalid(fmt::format("slice of {} lists {} dimensions",
                                       shape_text(operand, false),
                                       slices->size()));
  }
  Dimensions expected;
  for (size_t d = 0; d < slices->size(); ++d) {
    const SliceDimension& slice = (*slices)[d];
    if (slice.limit > operand.dimensions[d]) {
      return checked.invalid(
          fmt::format("slice [{}:{}] leaves dimension {} of {}", slice.start,
                      slice.limit, d, shape_text(operand, false)));
    }
    const int64_t length = slice.limit - slice.start;
    expected.push_back(length / slice.stride +
                       (length % slice.stride != 0 ? 1 : 0));
  }
  return checked.expect_extents("result", checked.result(), expected);
}

Status check_fits_inside(const CheckedInstruction& checked,
                         const Shape& inner) {
  const Shape& outer = checked.operand(0);
  bool fits = rank_of(inner) == rank_of(outer);
  for (size_t d = 0; fits && d < rank_of(inner); ++d) {
    fits = inner.dimensions[d] <= outer.dimensions[d];
  }
  if (fits) return {};
  return checked.invalid(fmt::format("{} does not fit in {}",
                                     shape_text(inner, false),
                                     shape_text(outer, false)));
}

/// Start indices: one scalar a dimension, or (before 2019) one vector.
Status check_start_indices(const CheckedInstruction& checked, size_t first) {
  const size_t given = checked.operand_count() - first;
  const size_t rank = rank_of(checked.operand(0));
  const bool vector = given == 1 && rank_of(checked.operand(first)) == 1;
  if (vector) {
    return checked.expect_extents("start index vector", checked.operand(first),
                                  {static_cast<int64_t>(rank)});
  }
  if (given != rank) {
    return checked.invalid(
        fmt::format("{} start indices for an array of rank {}", given, rank));
  }
  for (size_t i = first; i < checked.operand_count(); ++i) {
    const auto scalar = checked.expect_extents(fmt::format("operand {}", i),
                                               checked.operand(i), {});
    if (!scalar) return scalar;
  }
  return {};
}

Status check_dynamic_slice(const CheckedInstruction& checked) {
  const Dimensions sizes =
      integer_list(checked.instruction, "dynamic_slice_sizes");
  const auto same = checked.expect_extents("result", checked.result(), sizes);
  if (!same) return same;
  const auto fits = check_fits_inside(checked, checked.result());
  return fits ? check_start_indices(checked, 1) : fits;
}

Status check_dynamic_update_slice(const CheckedInstruction& checked) {
  const auto same = checked.expect_extents("result", checked.result(),
                                           checked.operand(0).dimensions);
  if (!same) return same;
  const auto fits = check_fits_inside(checked, checked.operand(1));
  return fits ? check_start_indices(checked, 2) : fits;
}

Status check_pad(const CheckedInstruction& checked) {
  const Shape& operand = checked.operand(0);
  const auto padding = pad_dimensions(checked.instruction);
  if (!padding) return tl::unexpected<Error>(padding.error());
  if (padding->size() != rank_of(operand)) {
    return checked.invalid(fmt::format("pad of {} lists {} dimensions",
                                       shape_text(operand, false),
                                       padding->size()));
  }
  for (size_t d = 0; d < padding->size(); ++d) {
    const PadDimension& pad = (*padding)[d];
    const int64_t holes = std::max<int64_t>(operand.dimensions[d] - 1, 0);
    int64_t inside = 0;
    int64_t total = 0;
    const bool overflows =
        __builtin_mul_overflow(holes, pad.interior, &inside) ||
        __builtin_add_overflow(operand.dimensions[d], inside, &total) ||
        __builtin_add_overflow(total, pad.low, &total) ||
        __builtin_add_overflow(total, pad.high, &total);
    if (overflows || rank_of(checked.result()) != padding->size() ||
        checked.result().dimensions[d] != total) {
      return checked.invalid(fmt::format(
          "pad of {} cannot give {} (dimension {})", shape_text(operand, false),
          shape_text(checked.result(), false), d));
    }
  }
  return checked.expect_extents("padding value", checked.operand(1), {});
}

Status check_iota(const CheckedInstruction& checked) {
  const auto dimension =
      checked.dimensions("iota_dimension", rank_of(checked.result()));
  if (!dimension) return tl::unexpected<Error>(dimension.error());
  if (dimension->size() == 1 || rank_of(checked.result()) == 0) return {};
  return checked.invalid("iota needs iota_dimension=");
}

/// Extents of named dimensions must agree pairwise.
Status check_paired(const CheckedInstruction& checked, const Dimensions& left,
                    const Dimensions& right) {
  bool agree = left.size() == right.size();
  for (size_t i = 0; agree && i < left.size(); ++i) {
    agree = extent(checked.operand(0), left[i]) ==
            extent(checked.operand(1), right[i]);
  }
  if (agree) return {};
  return checked.invalid(
      fmt::format("dot of {} and {}: dimensions {{{}}} and {{{}}} do not pair",
                  shape_text(checked.operand(0), false),
                  shape_text(checked.operand(1), false), fmt::join(left, ","),
                  fmt::join(right, ",")));
}

Status check_dot(const CheckedInstruction& checked) {
  DotDimensions dot;
  const size_t ranks[] = {rank_of(checked.operand(0)),
                          rank_of(checked.operand(1))};
  const struct {
    const char* name;
    size_t rank;
    Dimensions* out;
  } lists[] = {{"lhs_batch_dims", ranks[0], &dot.lhs_batch},
               {"rhs_batch_dims", ranks[1], &dot.rhs_batch},
               {"lhs_contracting_dims", ranks[0], &dot.lhs_contracting},
               {"rhs_contracting_dims", ranks[1], &dot.rhs_contracting}};
  for (const auto& list : lists) {
    const auto dimensions = checked.dimensions(list.name, list.rank);
    if (!dimensions) return tl::unexpected<Error>(dimensions.error());
    *list.out = *dimensions;
  }
  if (const auto batch = check_paired(checked, dot.lhs_batch, dot.rhs_batch);
      !batch)
    return batch;
  const auto contracting =
      check_paired(checked, dot.lhs_contracting, dot.rhs_contracting);
  if (!contracting) return contracting;
  Dimensions expected;
  for (const int64_t d : dot.lhs_batch)
    expected.push_back(extent(checked.operand(0), d));
  const auto append = [&](const Shape& shape, Dimensions named,
                          const Dimensions& contracted) {
    named.insert(named.end(), contracted.begin(), contracted.end());
    const Dimensions rest = extents_without(shape, named);
    expected.insert(expected.end(), rest.begin(), rest.end());
  };
  append(checked.operand(0), dot.lhs_batch, dot.lhs_contracting);
  append(checked.operand(1), dot.rhs_batch, dot.rhs_contracting);
  return checked.expect_extents("result", checked.result(), expected);
}

/// Arrays of one size, then their scalar initial values; one result an array:
/// the only one, or elements of a tuple.
Status check_reduction(const CheckedInstruction& checked,
                       const Dimensions& expected) {
  const size_t arrays = checked.operand_count() / 2;
  for (size_t i = 0; i < checked.operand_count(); ++i) {
    const Dimensions extents =
        i < arrays ? checked.operand(0).dimensions : Dimensions();
    const auto same = checked.expect_extents(fmt::format("operand {}", i),
                                             checked.operand(i), extents);
    if (!same) return same;
  }
  const Shape& result = checked.result();
  if (arrays == 1) return checked.expect_extents("result", result, expected);
  if (!result.is_tuple() || result.elements.size() != arrays) {
    return checked.invalid(fmt::format("{} of {} arrays cannot give {}",
                                       opcode_name(checked.instruction.opcode),
                                       arrays, shape_text(result, false)));
  }
  for (const Shape& element : result.elements) {
    const auto same = checked.expect_extents("result", element, expected);
    if (!same) return same;
  }
  return {};
}

Status check_reduce(const CheckedInstruction& checked) {
  const auto dimensions =
      checked.dimensions("dimensions", rank_of(checked.operand(0)));
  if (!dimensions) return tl::unexpected<Error>(dimensions.error());
  return check_reduction(checked,
                         extents_without(checked.operand(0), *dimensions));
}

/// Positions of a window of one dimension, or -1 when there are none to be had.
int64_t window_positions(const WindowDimension& window, int64_t base) {
  int64_t dilated = 0;
  int64_t reach = 0;
  if (__builtin_mul_overflow(std::max<int64_t>(base - 1, 0),
                             window.base_dilation, &dilated) ||
      __builtin_mul_overflow(std::max<int64_t>(window.size - 1, 0),
                             window.window_dilation, &reach) ||
      __builtin_add_overflow(dilated, base > 0 ? 1 : 0, &dilated) ||
      __builtin_add_overflow(dilated, window.padding_low, &dilated) ||
      __builtin_add_overflow(dilated, window.padding_high, &dilated) ||
      __builtin_add_overflow(reach, 1, &reach)) {
    return -1;
  }
  return dilated < reach ? 0 : (dilated - reach) / window.stride + 1;
}

Status check_reduce_window(const CheckedInstruction& checked) {
  const auto window = window_dimensions(checked.instruction);
  if (!window) return tl::unexpected<Error>(window.error());
  const Shape& operand = checked.operand(0);
  // A window of ones may be left out.
  if (window->empty()) return check_reduction(checked, operand.dimensions);
  if (window->size() != rank_of(operand)) {
    return checked.invalid(fmt::format("window of {} dimensions over {}",
                                       window->size(),
                                       shape_text(operand, false)));
  }
  Dimensions expected;
  for (size_t d = 0; d < window->size(); ++d) {
    expected.push_back(window_positions((*window)[d], operand.dimensions[d]));
  }
  return check_reduction(checked, expected);
}

Status check_convolution(const CheckedInstruction& checked) {
  const auto window = window_dimensions(checked.instruction);
  if (!window) return tl::unexpected<Error>(window.error());
  const size_t rank = rank_of(checked.result());
  if (rank == rank_of(checked.operand(0)) &&
      rank == rank_of(checked.operand(1)) && rank >= 2) {
    return {};
  }
  return checked.invalid(
      "convolution needs operands and a result of one rank, at least 2");
}

Status check_select_and_scatter(const CheckedInstruction& checked) {
  return checked.expect_extents("result", checked.result(),
                                checked.operand(0).dimensions);
}

struct Rule {
  Opcode opcode;
  bool keeps_type;
  bool array_result;
  Status (*check)(const CheckedInstruction&);
};

constexpr Rule kRules[] = {
    {Opcode::kBitcast, false, true, check_bitcast},
    {Opcode::kBitcastConvert, false, true, check_bitcast_convert},
    {Opcode::kBroadcast, true, true, check_broadcast},
    {Opcode::kConcatenate, true, true, check_concatenate},
    {Opcode::kConvolution, false, true, check_convolution},
    {Opcode::kDot, false, true, check_dot},
    {Opcode::kDynamicSlice, true, true, check_dynamic_slice},
    {Opcode::kDynamicUpdateSlice, true, true, check_dynamic_update_slice},
    {Opcode::kGather, true, true, check_gather},
    {Opcode::kIota, false, true, check_iota},
    {Opcode::kPad, true, true, check_pad},
    {Opcode::kReduce, false, false, check_reduce},
    {Opcode::kReduceWindow, false, false, check_reduce_window},
    {Opcode::kReshape, true, true, check_reshape},
    {Opcode::kReverse, true, true, check_reverse},
    {Opcode::kScatter, false, false, check_scatter},
    {Opcode::kSelectAndScatter, true, true, check_select_and_scatter},
    {Opcode::kSlice, true, true, check_slice},
    {Opcode::kTranspose, true, true, check_transpose},
};

Status check_arrays(const CheckedInstruction& checked, const Rule& rule) {
  bool arrays = !rule.array_result || checked.result().is_array();
  for (size_t i = 0; i < checked.operand_count(); ++i) {
    arrays = arrays && checked.operand(i).is_array();
  }
  if (!arrays) {
    return checked.invalid(
        fmt::format("{} takes and gives arrays", opcode_name(rule.opcode)));
  }
  if (!rule.keeps_type || checked.operand(0).type == checked.result().type)
    return {};
  return checked.invalid(fmt::format("{} of {} cannot give {}",
                                     opcode_name(rule.opcode),
                                     shape_text(checked.operand(0), false),
                                     shape_text(checked.result(), false)));
}

}  // namespace

std::vector<int64_t> extents_without(const Shape& shape,
                                     const std::vector<int64_t>& list) {
  std::vector<int64_t> extents;
  for (size_t d = 0; d < shape.dimensions.size(); ++d) {
    if (!contains(list, d)) extents.push_back(shape.dimensions[d]);
  }
  return extents;
}

Status check_indexed_operation(const CheckedInstruction& checked) {
  for (const Rule& rule : kRules) {
    if (rule.opcode != checked.instruction.opcode) continue;
    const auto arrays = check_arrays(checked, rule);
    return arrays ? rule.check(checked) : arrays;
  }
  return {};
}

}  // namespace reprise
