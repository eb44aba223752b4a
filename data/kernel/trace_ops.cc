// Index maps of the ops that move elements: which elements of its operands one
// element of an op needs, followed op by op down to loads, as XLA's indexing
// analysis and fused elemental emitters do. Reductions and gathers stand in
// trace_reduce.cc and trace_gather.cc.
#include <string>

#include "data/hlo/hlo.h"
#include "data/hlo/matrix_operation.h"
#include "data/kernel/trace.h"

namespace reprise {
namespace {

size_t iota_dimension(const Instruction& iota) {
  const std::vector<int64_t> dimension = integer_list(iota, "iota_dimension");
  return dimension.empty() ? 0 : static_cast<size_t>(dimension[0]);
}

/// Through barriers to what made a tuple: that may be in the group, too.
InstructionId tuple_behind(const Group& group, InstructionId tuple) {
  while (group.at(tuple).opcode == Opcode::kOptimizationBarrier)
    tuple = group.at(tuple).operands[0];
  return tuple;
}

}  // namespace

int32_t ElementTrace::trace_op(const Instruction& instruction, InstructionId id,
                               const IndexMap& map) {
  const auto& operands = instruction.operands;
  if (instruction.opcode != Opcode::kGetTupleElement &&
      (!instruction.shape.is_array() ||
       !is_kernel_type(instruction.shape.type))) {
    fail_with(ErrorKind::kUnsupported,
              instruction.name + ": no kernel computes " +
                  shape_text(instruction.shape, false));
    return literal(PrimitiveType::kF32, 0);
  }
  if (runs_elementwise(instruction.opcode))
    return trace_elementwise(instruction, map);
  if (const auto inner = moved_map(group_, indices_, instruction, map)) {
    return value(operands.at(0), *inner);
  }
  switch (instruction.opcode) {
    case Opcode::kConstant:
      return trace_constant(instruction, id, map);
    case Opcode::kIota:
      return index_node(instruction.shape.type,
                        map.at(iota_dimension(instruction)));
    case Opcode::kGetTupleElement: {
      const Instruction& tuple = group_.at(tuple_behind(group_, operands[0]));
      if (tuple.opcode != Opcode::kTuple) return load(id, map);
      const std::vector<int64_t> index = integer_list(instruction, "index");
      return value(tuple.operands.at(static_cast<size_t>(index.at(0))), map);
    }
    case Opcode::kSlice:
      return trace_slice(instruction, map);
    case Opcode::kPad:
      return trace_pad(instruction, map);
    case Opcode::kConcatenate:
      return trace_concatenate(instruction, map);
    case Opcode::kDynamicSlice:
      return trace_dynamic_slice(instruction, map);
    case Opcode::kDynamicUpdateSlice:
      return trace_dynamic_update(instruction, map);
    case Opcode::kGather:
      return trace_gather(instruction, map);
    case Opcode::kDot:
      return trace_dot(instruction, map);
    case Opcode::kReduce:
      return trace_reduce(instruction, map);
    case Opcode::kReduceWindow:
      return trace_window(instruction, map);
    case Opcode::kScatter:
      fail_with(ErrorKind::kInfeasible,
                instruction.name +
                    ": a scatter is complete only after its whole kernel");
      break;
    default:
      fail_with(ErrorKind::kUnsupported, instruction.name +
                                             ": no kernel computes " +
                                             opcode_and_target(instruction));
  }
  return literal(PrimitiveType::kF32, 0);
}

int32_t ElementTrace::trace_elementwise(const Instruction& instruction,
                                        const IndexMap& map) {
  if (instruction.opcode == Opcode::kBitcastConvert)
    return trace_bitcast_convert(instruction, map);
  if (instruction.opcode == Opcode::kReducePrecision)
    return trace_reduce_precision(instruction, map);
  int32_t nodes[3] = {-1, -1, -1};
  for (size_t i = 0; i < instruction.operands.size() && i < 3; ++i) {
    const Shape& shape = operand_shape(group_, instruction, i);
    nodes[i] = value(instruction.operands[i],
                     shape.dimensions.empty() ? IndexMap{} : map);
  }
  if (!status_) return nodes[0];
  const PrimitiveType type = instruction.shape.type;
  const PrimitiveType from = operand_shape(group_, instruction, 0).type;
  const Opcode opcode = instruction.opcode;
  if (!is_computable(opcode, opcode == Opcode::kSelect ? type : from)) {
    fail_with(ErrorKind::kUnsupported,
              instruction.name + ": no kernel computes " +
                  std::string(opcode_name(opcode)) + " of " +
                  std::string(primitive_type_name(from)));
    return nodes[0];
  }
  if (opcode == Opcode::kCopy || (opcode == Opcode::kConvert && type == from))
    return nodes[0];
  if (opcode == Opcode::kCompare) {
    const std::string direction = compare_direction(instruction);
    if (direction.size() != 2) {
      fail_with(ErrorKind::kUnsupported,
                instruction.name + ": unknown comparison");
      return nodes[0];
    }
    if (compares_total_order(instruction)) {
      nodes[0] = total_order_key(nodes[0]);
      nodes[1] = total_order_key(nodes[1]);
    }
    return apply(opcode, type, nodes[0], nodes[1], -1, direction.c_str());
  }
  return apply(opcode, type, nodes[0], nodes[1], nodes[2]);
}

int32_t ElementTrace::trace_constant(const Instruction& constant,
                                     InstructionId id, const IndexMap& map) {
  if (!constant.shape.dimensions.empty()) return load(id, map);
  const PrimitiveType type = constant.shape.type;
  const Result<std::vector<std::string_view>> words = literal_words(constant);
  if (!words) {
    fail_with(words.error().kind, words.error().message);
    return literal(type, 0);
  }
  return literal(type, literal_bits(type, std::string(words->front())));
}

int32_t ElementTrace::trace_slice(const Instruction& slice,
                                  const IndexMap& map) {
  const auto dimensions = slice_dimensions(slice);
  if (!dimensions) {
    fail_with(dimensions.error().kind,
              slice.name + ": " + dimensions.error().message);
    return literal(slice.shape.type, 0);
  }
  IndexMap inner;
  for (size_t i = 0; i < map.size(); ++i) {
    const SliceDimension& dimension = dimensions->at(i);
    inner.push_back(indices_.add(indices_.constant(dimension.start),
                                 indices_.scale(map[i], dimension.stride)));
  }
  return value(slice.operands[0], inner);
}

int32_t ElementTrace::trace_pad(const Instruction& pad, const IndexMap& map) {
  const auto dimensions = pad_dimensions(pad);
  if (!dimensions) {
    fail_with(dimensions.error().kind,
              pad.name + ": " + dimensions.error().message);
    return literal(pad.shape.type, 0);
  }
  IndexMap inner;
  int32_t inside = -1;
  for (size_t i = 0; i < map.size(); ++i) {
    const PadDimension& dimension = dimensions->at(i);
    const int64_t step = dimension.interior + 1;
    const int64_t span =
        (operand_shape(group_, pad, 0).dimensions[i] - 1) * step;
    const int32_t shifted =
        indices_.add(map[i], indices_.constant(-dimension.low));
    const int32_t position = indices_.clamp(shifted, 0, span);
    inside = both(inside, within(shifted, 0, span));
    if (step > 1)
      inside = both(inside, within(indices_.mod(position, step), 0, 0));
    inner.push_back(indices_.floor_div(position, step));
  }
  const int32_t element = value(pad.operands[0], inner);
  if (inside < 0) return element;
  return apply(Opcode::kSelect, pad.shape.type, inside, element,
               value(pad.operands[1], {}));
}

int32_t ElementTrace::trace_concatenate(const Instruction& concatenate,
                                        const IndexMap& map) {
  const size_t dimension =
      static_cast<size_t>(integer_list(concatenate, "dimensions").at(0));
  int64_t end = concatenate.shape.dimensions[dimension];
  int32_t result = -1;
  for (size_t i = concatenate.operands.size(); i-- > 0;) {
    const int64_t size =
        operand_shape(group_, concatenate, i).dimensions[dimension];
    const int64_t start = end - size;
    if (size > 0) {
      IndexMap inner = map;
      const int32_t shifted =
          indices_.add(map[dimension], indices_.constant(-start));
      inner[dimension] = indices_.clamp(shifted, 0, size - 1);
      const int32_t element = value(concatenate.operands[i], inner);
      if (result < 0) {
        result = element;
      } else {
        const int32_t inside = within(map[dimension], 0, end - 1);
        result = inside < 0 ? element
                            : apply(Opcode::kSelect, concatenate.shape.type,
                                    inside, element, result);
      }
    }
    end = start;
  }
  return result;
}

IndexMap ElementTrace::start_vector(const Instruction& instruction,
                                    size_t first, const Shape& shape,
                                    const std::vector<int64_t>& sizes) {
  IndexMap starts;
  const bool one_vector =
      instruction.operands.size() == first + 1 &&
      operand_shape(group_, instruction, first).dimensions.size() == 1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int32_t node =
        one_vector ? value(instruction.operands[first],
                           {indices_.constant(static_cast<int64_t>(i))})
                   : value(instruction.operands.at(first + i), {});
    starts.push_back(dynamic_index(node, 0, shape.dimensions[i] - sizes[i]));
  }
  return starts;
}

int32_t ElementTrace::trace_dynamic_slice(const Instruction& slice,
                                          const IndexMap& map) {
  IndexMap inner = start_vector(slice, 1, operand_shape(group_, slice, 0),
                                slice.shape.dimensions);
  for (size_t i = 0; i < map.size(); ++i)
    inner[i] = indices_.add(inner[i], map[i]);
  return value(slice.operands[0], inner);
}

int32_t ElementTrace::trace_dynamic_update(const Instruction& update,
                                           const IndexMap& map) {
  const std::vector<int64_t>& sizes =
      operand_shape(group_, update, 1).dimensions;
  const IndexMap starts = start_vector(update, 2, update.shape, sizes);
  IndexMap inner;
  int32_t inside = -1;
  for (size_t i = 0; i < map.size(); ++i) {
    const int32_t shifted = indices_.add(map[i], indices_.scale(starts[i], -1));
    inside = both(inside, within(shifted, 0, sizes[i] - 1));
    inner.push_back(indices_.clamp(shifted, 0, sizes[i] - 1));
  }
  const int32_t element = value(update.operands[1], inner);
  if (inside < 0) return element;
  return apply(Opcode::kSelect, update.shape.type, inside, element,
               value(update.operands[0], map));
}

}  // namespace reprise
