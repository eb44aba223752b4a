// Index maps of each opcode: which elements of its operands one element of an
// op needs.
#include <algorithm>
#include <string>

#include "data/hlo/hlo.h"
#include "data/hlo/window.h"
#include "data/kernel/canonical_maps.h"
#include "data/kernel/trace.h"

namespace reprise {
namespace {

/// Reduce windows larger than this are not written out.
constexpr int64_t kWindowElements = 64;

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

/// The opcode; of a custom call, its target too.
std::string described(const Instruction& instruction) {
  const std::string opcode(opcode_name(instruction.opcode));
  const Attribute* target = instruction.find_attribute("custom_call_target");
  const auto* text =
      target == nullptr ? nullptr : std::get_if<RawText>(&target->value);
  return text == nullptr ? opcode : opcode + " " + text->text;
}

}  // namespace

int32_t Trace::trace_op(const Instruction& instruction, InstructionId id,
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
    case Opcode::kIota: {
      const std::vector<int64_t> dimension =
          integer_list(instruction, "iota_dimension");
      const size_t which =
          dimension.empty() ? 0 : static_cast<size_t>(dimension[0]);
      return index_node(instruction.shape.type, map.at(which));
    }
    case Opcode::kGetTupleElement: {
      const Instruction& tuple = group_.at(operands[0]);
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
      fail_with(
          ErrorKind::kUnsupported,
          instruction.name + ": no kernel computes " + described(instruction));
  }
  return literal(PrimitiveType::kF32, 0);
}

int32_t Trace::trace_elementwise(const Instruction& instruction,
                                 const IndexMap& map) {
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
  if (opcode == Opcode::kBitcastConvert &&
      primitive_type_bits(type) != primitive_type_bits(from)) {
    fail_with(
        ErrorKind::kUnsupported,
        instruction.name + ": bitcast-convert to another width has no kernel");
    return nodes[0];
  }
  if (opcode == Opcode::kCompare) {
    const std::string direction = compare_direction(instruction);
    if (direction.size() != 2) {
      fail_with(ErrorKind::kUnsupported,
                instruction.name + ": unknown comparison");
      return nodes[0];
    }
    return apply(opcode, type, nodes[0], nodes[1], -1, direction.c_str());
  }
  return apply(opcode, type, nodes[0], nodes[1], nodes[2]);
}

int32_t Trace::trace_constant(const Instruction& constant, InstructionId id,
                              const IndexMap& map) {
  if (!constant.shape.dimensions.empty()) return load(id, map);
  const PrimitiveType type = constant.shape.type;
  const Result<std::vector<std::string_view>> words = literal_words(constant);
  if (!words) {
    fail_with(words.error().kind, words.error().message);
    return literal(type, 0);
  }
  return literal(type, literal_bits(type, std::string(words->front())));
}

int32_t Trace::trace_slice(const Instruction& slice, const IndexMap& map) {
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

int32_t Trace::trace_pad(const Instruction& pad, const IndexMap& map) {
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

int32_t Trace::trace_concatenate(const Instruction& concatenate,
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

IndexMap Trace::start_vector(const Instruction& instruction, size_t first,
                             const Shape& shape,
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

int32_t Trace::trace_dynamic_slice(const Instruction& slice,
                                   const IndexMap& map) {
  IndexMap inner = start_vector(slice, 1, operand_shape(group_, slice, 0),
                                slice.shape.dimensions);
  for (size_t i = 0; i < map.size(); ++i)
    inner[i] = indices_.add(inner[i], map[i]);
  return value(slice.operands[0], inner);
}

int32_t Trace::trace_dynamic_update(const Instruction& update,
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

int32_t Trace::trace_gather(const Instruction& gather, const IndexMap& map) {
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

Trace::Target Trace::scatter_target(const Instruction& scatter,
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

int32_t Trace::trace_reduce(const Instruction& reduce, const IndexMap& map) {
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

int32_t Trace::trace_lanes(const Instruction& reduce, const ReduceSpec& spec,
                           const IndexMap& map) {
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

int32_t Trace::trace_unrolled(const Instruction& reduce, const ReduceSpec& spec,
                              const IndexMap& map) {
  int64_t count = 1;
  for (const int64_t extent : spec.reduced_extents) count *= extent;
  int32_t result = value(reduce.operands[1], {});
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
  return result;
}

int32_t Trace::trace_window(const Instruction& window, const IndexMap& map) {
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
  for (int64_t i = 0; i < count; ++i) {
    const IndexMap position = indices_.delinearize(indices_.constant(i), sizes);
    IndexMap inner;
    int32_t inside = -1;
    for (size_t d = 0; d < sizes.size(); ++d) {
      const WindowDimension& dimension = dimensions->at(d);
      const int64_t step = dimension.base_dilation;
      const int64_t span =
          (operand_shape(group_, window, 0).dimensions[d] - 1) * step;
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
