// Gather and scatter: which element an index vector names. Starts of a gather
// are clamped so that the slice stays inside; an update of a scatter that would
// fall outside is guarded away, as XLA defines both.
#include <algorithm>

#include "data/hlo/hlo.h"
#include "data/kernel/trace.h"

namespace reprise {
namespace {

bool contains(const std::vector<int64_t>& list, size_t dimension) {
  return std::find(list.begin(), list.end(), static_cast<int64_t>(dimension)) !=
         list.end();
}

/// The index of one component of a start index vector.
IndexMap component_map(IndexTable& indices, const IndexMap& batch,
                       int64_t vector_dimension, size_t rank,
                       int64_t component) {
  IndexMap map = batch;
  if (static_cast<size_t>(vector_dimension) < rank) {
    map.insert(map.begin() + vector_dimension, indices.constant(component));
  }
  return map;
}

}  // namespace

int32_t ElementTrace::trace_gather(const Instruction& gather,
                                   const IndexMap& map) {
  const GatherDimensions dimensions = gather_dimensions(gather);
  const Shape& operand = operand_shape(group_, gather, 0);
  const size_t indices_rank =
      operand_shape(group_, gather, 1).dimensions.size();
  IndexMap batch, offsets;
  for (size_t i = 0; i < map.size(); ++i) {
    (contains(dimensions.offset_dims, i) ? offsets : batch).push_back(map[i]);
  }
  IndexMap inner(operand.dimensions.size(), indices_.constant(0));
  for (size_t i = 0; i < dimensions.operand_batching_dims.size(); ++i) {
    size_t place =
        static_cast<size_t>(dimensions.start_indices_batching_dims.at(i));
    if (static_cast<int64_t>(place) > dimensions.index_vector_dim) --place;
    inner.at(static_cast<size_t>(dimensions.operand_batching_dims[i])) =
        batch.at(place);
  }
  for (size_t k = 0; k < dimensions.start_index_map.size(); ++k) {
    const size_t target = static_cast<size_t>(dimensions.start_index_map[k]);
    const int32_t node =
        value(gather.operands[1],
              component_map(indices_, batch, dimensions.index_vector_dim,
                            indices_rank, static_cast<int64_t>(k)));
    inner.at(target) = dynamic_index(
        node, 0, operand.dimensions[target] - dimensions.slice_sizes[target]);
  }
  size_t next = 0;
  for (size_t i = 0; i < inner.size(); ++i) {
    if (contains(dimensions.collapsed_slice_dims, i) ||
        contains(dimensions.operand_batching_dims, i)) {
      continue;
    }
    inner[i] = indices_.add(inner[i], offsets.at(next++));
  }
  return value(gather.operands[0], inner);
}

ElementTrace::Target ElementTrace::scatter_target(const Instruction& scatter,
                                                  const IndexMap& updates) {
  const ScatterDimensions dimensions = scatter_dimensions(scatter);
  const Shape& operand = operand_shape(group_, scatter, 0);
  const Shape& window = operand_shape(group_, scatter, 2);
  const size_t indices_rank =
      operand_shape(group_, scatter, 1).dimensions.size();
  IndexMap batch, place(operand.dimensions.size(), indices_.constant(0));
  std::vector<int64_t> sizes(operand.dimensions.size(), 1);
  size_t next = 0;
  for (size_t i = 0; i < updates.size(); ++i) {
    if (!contains(dimensions.update_window_dims, i)) {
      batch.push_back(updates[i]);
      continue;
    }
    while (contains(dimensions.inserted_window_dims, next) ||
           contains(dimensions.input_batching_dims, next)) {
      ++next;
    }
    place.at(next) = updates[i];
    sizes.at(next++) = window.dimensions[i];
  }
  for (size_t i = 0; i < dimensions.input_batching_dims.size(); ++i) {
    size_t from =
        static_cast<size_t>(dimensions.scatter_indices_batching_dims.at(i));
    if (static_cast<int64_t>(from) > dimensions.index_vector_dim) --from;
    place.at(static_cast<size_t>(dimensions.input_batching_dims[i])) =
        batch.at(from);
  }
  Target target;
  for (size_t k = 0; k < dimensions.scatter_dims_to_operand_dims.size(); ++k) {
    const size_t dimension =
        static_cast<size_t>(dimensions.scatter_dims_to_operand_dims[k]);
    const int32_t node =
        value(scatter.operands[1],
              component_map(indices_, batch, dimensions.index_vector_dim,
                            indices_rank, static_cast<int64_t>(k)));
    const int64_t last = operand.dimensions[dimension] - sizes[dimension];
    const int32_t start = apply(Opcode::kConvert, PrimitiveType::kS64, node);
    for (const auto& [direction, bound] :
         {std::pair{"GE", int64_t{0}}, std::pair{"LE", last}}) {
      const int32_t limit =
          literal(PrimitiveType::kS64, static_cast<uint64_t>(bound));
      target.guard =
          both(target.guard, apply(Opcode::kCompare, PrimitiveType::kPred,
                                   start, limit, -1, direction));
    }
    place[dimension] =
        indices_.add(place[dimension], dynamic_index(start, 0, last));
  }
  target.index = indices_.linearize(place, operand.dimensions);
  return target;
}

}  // namespace reprise
