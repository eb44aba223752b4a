#include "data/hlo/loop_steps.h"

#include <string>
#include <utility>

namespace reprise {

Shape array_of(PrimitiveType type, std::vector<int64_t> dimensions) {
  Shape shape;
  shape.type = type;
  shape.dimensions = std::move(dimensions);
  return shape;
}

Shape with_steps(const Shape& row, int64_t steps) {
  std::vector<int64_t> dimensions = row.dimensions;
  dimensions.insert(dimensions.begin(), steps);
  return array_of(row.type, std::move(dimensions));
}

InstructionId LoopSteps::reshaped(InstructionId id,
                                  std::vector<int64_t> dimensions) {
  if (shape_of(id).dimensions == dimensions) return id;
  return op(Opcode::kReshape, {id},
            array_of(shape_of(id).type, std::move(dimensions)));
}

InstructionId LoopSteps::transposed(InstructionId id,
                                    std::vector<int64_t> order) {
  std::vector<int64_t> dimensions;
  dimensions.reserve(order.size());
  for (const int64_t d : order)
    dimensions.push_back(shape_of(id).dimensions[static_cast<size_t>(d)]);
  return op(Opcode::kTranspose, {id},
            array_of(shape_of(id).type, std::move(dimensions)),
            {{"dimensions", std::move(order)}});
}

InstructionId LoopSteps::picked(InstructionId tuple, size_t element) {
  return op(Opcode::kGetTupleElement, {tuple},
            shape_of(tuple).elements[element],
            {{"index", RawText{std::to_string(element)}}});
}

InstructionId LoopSteps::row(InstructionId array, InstructionId index,
                             size_t dimension) {
  std::vector<int64_t> sizes = shape_of(array).dimensions;
  sizes[dimension] = 1;
  const Shape shape = array_of(shape_of(array).type, sizes);
  const InstructionId slice =
      op(Opcode::kDynamicSlice,
         with_indices({array}, index, dimension, sizes.size()), shape,
         {{"dynamic_slice_sizes", sizes}});
  sizes.erase(sizes.begin() + static_cast<ptrdiff_t>(dimension));
  return reshaped(slice, std::move(sizes));
}

InstructionId LoopSteps::with_row(InstructionId array, InstructionId row,
                                  InstructionId index, size_t dimension) {
  std::vector<int64_t> sizes = shape_of(array).dimensions;
  sizes[dimension] = 1;
  const Shape shape = shape_of(array);
  const InstructionId update = reshaped(row, sizes);
  return op(Opcode::kDynamicUpdateSlice,
            with_indices({array, update}, index, dimension, sizes.size()),
            shape);
}

std::vector<InstructionId> LoopSteps::with_indices(
    std::vector<InstructionId> operands, InstructionId index, size_t dimension,
    size_t rank) {
  const InstructionId zero = number(0, array_of(shape_of(index).type));
  for (size_t d = 0; d < rank; ++d)
    operands.push_back(d == dimension ? index : zero);
  return operands;
}

}  // namespace reprise
