#include "data/hlo/inline_bitcast.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace reprise {
namespace {

Shape row_major_shape(PrimitiveType type, std::vector<int64_t> dimensions) {
  Shape shape;
  shape.type = type;
  shape.dimensions = std::move(dimensions);
  return shape;
}

/// Dimensions as they lie in memory, the slowest first.
std::vector<int64_t> memory_order(const Shape& shape) {
  std::vector<int64_t> order(shape.minor_to_major.rbegin(),
                             shape.minor_to_major.rend());
  if (order.size() != shape.dimensions.size()) {
    order.resize(shape.dimensions.size());
    std::iota(order.begin(), order.end(), 0);
  }
  return order;
}

/// Whether that order moves no element: dimensions of one element may stand
/// anywhere.
bool keeps_elements(const std::vector<int64_t>& order, const Shape& shape) {
  int64_t last = -1;
  for (const int64_t d : order) {
    if (shape.dimensions[static_cast<size_t>(d)] == 1) continue;
    if (d < last) return false;
    last = d;
  }
  return true;
}

class Steps {
 public:
  Steps(const Instruction& bitcast, const Shape& operand)
      : bitcast_(bitcast), shape_(operand) {}

  std::vector<Instruction> run() {
    const PrimitiveType type = bitcast_.shape.type;
    const std::vector<int64_t> from = memory_order(shape_);
    if (!keeps_elements(from, shape_)) transpose(from);
    if (shape_.type != type) convert(type);
    const std::vector<int64_t> to = memory_order(bitcast_.shape);
    if (keeps_elements(to, bitcast_.shape)) {
      reshape(bitcast_.shape.dimensions);
    } else {
      std::vector<int64_t> dimensions, inverse(to.size());
      for (size_t i = 0; i < to.size(); ++i) {
        dimensions.push_back(
            bitcast_.shape.dimensions[static_cast<size_t>(to[i])]);
        inverse[static_cast<size_t>(to[i])] = static_cast<int64_t>(i);
      }
      reshape(std::move(dimensions));
      transpose(inverse);
    }
    if (steps_.empty()) add(Opcode::kReshape, shape_);
    steps_.back().name = bitcast_.name;
    steps_.back().shape = bitcast_.shape;
    return std::move(steps_);
  }

 private:
  Instruction& add(Opcode opcode, Shape shape) {
    Instruction& step = steps_.emplace_back();
    step.name = fmt::format("{}/{}", bitcast_.name, steps_.size());
    step.opcode = opcode;
    step.shape = shape;
    if (const Attribute* found = bitcast_.find_attribute("metadata"))
      step.attributes.push_back(*found);
    shape_ = std::move(shape);
    return step;
  }

  void transpose(const std::vector<int64_t>& order) {
    std::vector<int64_t> dimensions;
    dimensions.reserve(order.size());
    for (const int64_t d : order)
      dimensions.push_back(shape_.dimensions[static_cast<size_t>(d)]);
    add(Opcode::kTranspose, row_major_shape(shape_.type, std::move(dimensions)))
        .attributes.push_back({"dimensions", order});
  }

  void reshape(std::vector<int64_t> dimensions) {
    if (dimensions == shape_.dimensions) return;
    add(Opcode::kReshape, row_major_shape(shape_.type, std::move(dimensions)));
  }

  /// Elements of another width gain or lose a last dimension.
  void convert(PrimitiveType type) {
    const int from = primitive_type_bits(shape_.type);
    const int to = primitive_type_bits(type);
    std::vector<int64_t> dimensions = shape_.dimensions;
    if (from < to) {
      reshape({element_count(shape_) * from / to, to / from});
      dimensions = {shape_.dimensions[0]};
    } else if (from > to) {
      dimensions.push_back(from / to);
    }
    add(Opcode::kBitcastConvert, row_major_shape(type, std::move(dimensions)));
  }

  const Instruction& bitcast_;
  Shape shape_;  ///< Of what the next step takes.
  std::vector<Instruction> steps_;
};

}  // namespace

bool moves_elements(const Instruction& bitcast, const Shape& operand) {
  const auto is_understood = [](const Shape& shape) {
    std::vector<int64_t> order = memory_order(shape);
    std::sort(order.begin(), order.end());
    for (size_t i = 0; i < order.size(); ++i) {
      if (order[i] != static_cast<int64_t>(i)) return false;
    }
    return shape.is_array() && primitive_type_bits(shape.type) >= 8;
  };
  const auto is_row_major = [](const Shape& shape) {
    return std::is_sorted(shape.minor_to_major.rbegin(),
                          shape.minor_to_major.rend());
  };
  if (!is_understood(bitcast.shape) || !is_understood(operand) ||
      byte_size(bitcast.shape) != byte_size(operand))
    return false;
  return bitcast.shape.type != operand.type || !is_row_major(operand) ||
         !is_row_major(bitcast.shape);
}

std::vector<Instruction> bitcast_steps(const Instruction& bitcast,
                                       const Shape& operand) {
  return Steps(bitcast, operand).run();
}

}  // namespace reprise
