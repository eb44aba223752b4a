// Checks of gather and scatter, by XLA's operation semantics: dimension numbers
// name what there is, and windows stay inside of the operand.
#include <algorithm>

#include "data/hlo/hlo.h"
#include "data/hlo/hlo_checks.h"

namespace reprise {
namespace {

using Dimensions = std::vector<int64_t>;

/// Each list that is named has distinct dimensions of an array of rank `rank`.
Status check_lists(const CheckedInstruction& checked,
                   std::initializer_list<const char*> names, size_t rank) {
  for (const char* name : names) {
    const auto dimensions = checked.dimensions(name, rank);
    if (!dimensions) return tl::unexpected<Error>(dimensions.error());
  }
  return {};
}

/// One component of an index vector a dimension in `map`, each vector along
/// dimension `along` of the indices, or one number each beyond their last.
Status check_index_vectors(const CheckedInstruction& checked, int64_t along,
                           const Dimensions& map) {
  const Shape& indices = checked.operand(1);
  const auto rank = static_cast<int64_t>(indices.dimensions.size());
  const bool in_range = along >= 0 && along <= rank;
  const int64_t length = in_range && along < rank
                             ? indices.dimensions[static_cast<size_t>(along)]
                             : 1;
  if (in_range && static_cast<int64_t>(map.size()) == length) return {};
  return checked.invalid(fmt::format(
      "index vectors of {} along dimension {} do not index {} dimensions",
      shape_text(indices, false), along, map.size()));
}

/// Batching dimensions of the operand have the extents of those of the indices.
Status check_batching(const CheckedInstruction& checked,
                      const Dimensions& operand_dims,
                      const Dimensions& indices_dims, int64_t index_vector) {
  const Shape& operand = checked.operand(0);
  const Shape& indices = checked.operand(1);
  bool agree = operand_dims.size() == indices_dims.size();
  for (size_t i = 0; agree && i < operand_dims.size(); ++i) {
    const auto from = static_cast<size_t>(indices_dims[i]);
    agree = indices_dims[i] != index_vector &&
            operand.dimensions[static_cast<size_t>(operand_dims[i])] ==
                indices.dimensions[from];
  }
  if (agree) return {};
  return checked.invalid(fmt::format(
      "batching dimensions {{{}}} of {} and {{{}}} of {} do not pair",
      fmt::join(operand_dims, ","), shape_text(operand, false),
      fmt::join(indices_dims, ","), shape_text(indices, false)));
}

Status check_slice_sizes(const CheckedInstruction& checked,
                         const GatherDimensions& gather) {
  const Shape& operand = checked.operand(0);
  const size_t rank = operand.dimensions.size();
  bool fits = gather.slice_sizes.size() == rank;
  for (size_t d = 0; fits && d < rank; ++d) {
    const bool dropped = contains(gather.collapsed_slice_dims, d) ||
                         contains(gather.operand_batching_dims, d);
    const int64_t most = dropped ? std::min<int64_t>(operand.dimensions[d], 1)
                                 : operand.dimensions[d];
    fits = gather.slice_sizes[d] >= 0 && gather.slice_sizes[d] <= most;
  }
  if (fits) return {};
  return checked.invalid(fmt::format("slice_sizes={{{}}} of {} do not fit",
                                     fmt::join(gather.slice_sizes, ","),
                                     shape_text(operand, false)));
}

Status check_gather_attributes(const CheckedInstruction& checked,
                               const GatherDimensions& gather) {
  const size_t rank = checked.operand(0).dimensions.size();
  const Status lists = check_lists(
      checked,
      {"collapsed_slice_dims", "start_index_map", "operand_batching_dims"},
      rank);
  if (!lists) return lists;
  const Status offsets =
      check_lists(checked, {"offset_dims"}, checked.result().dimensions.size());
  if (!offsets) return offsets;
  const Status batches = check_lists(checked, {"start_indices_batching_dims"},
                                     checked.operand(1).dimensions.size());
  if (!batches) return batches;
  const Status vectors = check_index_vectors(checked, gather.index_vector_dim,
                                             gather.start_index_map);
  if (!vectors) return vectors;
  const Status paired = check_batching(checked, gather.operand_batching_dims,
                                       gather.start_indices_batching_dims,
                                       gather.index_vector_dim);
  return paired ? check_slice_sizes(checked, gather) : paired;
}

Status check_scatter_attributes(const CheckedInstruction& checked,
                                const ScatterDimensions& scatter) {
  const Status lists =
      check_lists(checked,
                  {"inserted_window_dims", "scatter_dims_to_operand_dims",
                   "input_batching_dims"},
                  checked.operand(0).dimensions.size());
  if (!lists) return lists;
  const Status windows = check_lists(checked, {"update_window_dims"},
                                     checked.operand(2).dimensions.size());
  if (!windows) return windows;
  const Status batches = check_lists(checked, {"scatter_indices_batching_dims"},
                                     checked.operand(1).dimensions.size());
  if (!batches) return batches;
  const Status vectors = check_index_vectors(
      checked, scatter.index_vector_dim, scatter.scatter_dims_to_operand_dims);
  if (!vectors) return vectors;
  return check_batching(checked, scatter.input_batching_dims,
                        scatter.scatter_indices_batching_dims,
                        scatter.index_vector_dim);
}

/// Windows of the updates fit in the operand, the rest are index vectors.
bool updates_fit(const CheckedInstruction& checked,
                 const ScatterDimensions& scatter) {
  const Shape& updates = checked.operand(2);
  Dimensions dropped = scatter.inserted_window_dims;
  dropped.insert(dropped.end(), scatter.input_batching_dims.begin(),
                 scatter.input_batching_dims.end());
  const Dimensions windows = extents_without(checked.operand(0), dropped);
  if (windows.size() != scatter.update_window_dims.size()) return false;
  size_t next = 0;
  for (size_t d = 0; d < updates.dimensions.size(); ++d) {
    if (!contains(scatter.update_window_dims, d)) continue;
    if (updates.dimensions[d] > windows[next++]) return false;
  }
  return extents_without(updates, scatter.update_window_dims) ==
         extents_without(checked.operand(1), {scatter.index_vector_dim});
}

}  // namespace

Status check_gather(const CheckedInstruction& checked) {
  const GatherDimensions gather = gather_dimensions(checked.instruction);
  const Status attributes = check_gather_attributes(checked, gather);
  if (!attributes) return attributes;
  Dimensions dropped = gather.collapsed_slice_dims;
  dropped.insert(dropped.end(), gather.operand_batching_dims.begin(),
                 gather.operand_batching_dims.end());
  Shape slice = checked.operand(0);
  slice.dimensions = gather.slice_sizes;
  const Dimensions window = extents_without(slice, dropped);
  const Dimensions batch =
      extents_without(checked.operand(1), {gather.index_vector_dim});
  const size_t rank = checked.result().dimensions.size();
  if (window.size() != gather.offset_dims.size() ||
      window.size() + batch.size() != rank) {
    return checked.invalid(fmt::format("gather of {} cannot give {}",
                                       shape_text(checked.operand(0), false),
                                       shape_text(checked.result(), false)));
  }
  Dimensions expected;
  size_t next_window = 0;
  size_t next_batch = 0;
  for (size_t d = 0; d < rank; ++d) {
    const bool is_offset = contains(gather.offset_dims, d);
    expected.push_back(is_offset ? window[next_window++] : batch[next_batch++]);
  }
  return checked.expect_extents("result", checked.result(), expected);
}

Status check_scatter(const CheckedInstruction& checked) {
  if (checked.operand_count() != 3) {
    // The variadic form: arrays, indices, updates. Only its arity is checked.
    if (checked.operand_count() % 2 == 1 && checked.result().is_tuple())
      return {};
    return checked.invalid(
        "scatter of several arrays needs as many updates and a tuple result");
  }
  const ScatterDimensions scatter = scatter_dimensions(checked.instruction);
  const Status attributes = check_scatter_attributes(checked, scatter);
  if (!attributes) return attributes;
  const Shape& operand = checked.operand(0);
  if (!updates_fit(checked, scatter)) {
    return checked.invalid(fmt::format(
        "scatter of updates {} by indices {} into {} does not fit",
        shape_text(checked.operand(2), false),
        shape_text(checked.operand(1), false), shape_text(operand, false)));
  }
  return checked.expect_shape("result", checked.result(), operand);
}

}  // namespace reprise
