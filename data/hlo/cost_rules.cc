// XLA's HloCostAnalysis, opcode by opcode: a fused multiply-add counts 2,
// transcendental functions count apart, bytes are what is read and written
// once. Compared with jaxlib 0.4.30 by tests/data/hlo/jaxlib_parse.py.
#include "data/hlo/cost_rules.h"

#include <algorithm>
#include <cmath>

#include "data/hlo/hlo.h"
#include "data/hlo/window.h"

namespace reprise {
namespace {

using Dimensions = std::vector<int64_t>;

double dot_flops(const CostedOperation& op) {
  double contracted = 1;
  for (const int64_t d : dot_dimensions(op.instruction).lhs_contracting) {
    contracted *=
        static_cast<double>(op.operand(0).dimensions[static_cast<size_t>(d)]);
  }
  return 2 * element_total(op.instruction.shape) * contracted;
}

/// How many (output, tap) pairs of one dimension touch an element, not padding
/// or a hole.
double valid_positions(const WindowDimension& window, int64_t base,
                       int64_t outputs) {
  constexpr int64_t kLargestCounted =
      4096;  // Beyond, every pair counts: padding is a trifle.
  constexpr int64_t kLargestBase = int64_t{1} << 30;
  if (window.size > kLargestCounted || outputs > kLargestBase ||
      base > kLargestBase ||
      (window.base_dilation > 1 && outputs > kLargestCounted)) {
    return static_cast<double>(window.size) * static_cast<double>(outputs);
  }
  const int64_t last_element = (base - 1) * window.base_dilation;
  double valid = 0;
  for (int64_t tap = 0; tap < window.size; ++tap) {
    const int64_t shift = tap * window.window_dilation - window.padding_low;
    if (window.base_dilation == 1) {
      const int64_t first =
          shift >= 0 ? 0 : (-shift + window.stride - 1) / window.stride;
      const int64_t last =
          last_element < shift
              ? -1
              : std::min(outputs - 1, (last_element - shift) / window.stride);
      valid += static_cast<double>(std::max<int64_t>(0, last - first + 1));
      continue;
    }
    for (int64_t output = 0; output < outputs; ++output) {
      const int64_t at = output * window.stride + shift;
      if (at >= 0 && at <= last_element && at % window.base_dilation == 0)
        valid += 1;
    }
  }
  return valid;
}

std::string raw_attribute(const Instruction& instruction,
                          std::string_view name) {
  const Attribute* found = instruction.find_attribute(name);
  if (found == nullptr) return {};
  const auto* raw = std::get_if<RawText>(&found->value);
  return raw == nullptr ? std::string() : raw->text;
}

/// 2 x outputs without space x input features a group x valid positions of
/// every dimension.
double convolution_flops(const CostedOperation& op) {
  const std::string labels = raw_attribute(op.instruction, "dim_labels");
  const size_t kernel_at = labels.find('_');
  const size_t output_at = labels.find("->");
  const Shape& output = op.instruction.shape;
  const size_t rank = output.dimensions.size();
  if (kernel_at != rank || output_at != 2 * rank + 1 ||
      labels.size() != 3 * rank + 3)
    return 0;
  const auto window = window_dimensions(op.instruction);
  if (!window || window->size() + 2 != rank) return 0;
  double flops = 2;
  for (size_t d = 0; d < rank; ++d) {
    const char kernel = labels[kernel_at + 1 + d];
    const char out = labels[output_at + 2 + d];
    if (kernel == 'i')
      flops *= static_cast<double>(op.operand(1).dimensions[d]);
    if (out == 'b' || out == 'f') {
      flops *= static_cast<double>(output.dimensions[d]);
      continue;
    }
    const size_t input = labels.find(out);
    const auto spatial = static_cast<size_t>(out - '0');
    if (input >= rank || spatial >= window->size()) return 0;
    flops *=
        valid_positions((*window)[spatial], op.operand(0).dimensions[input],
                        output.dimensions[d]);
  }
  return flops;
}

/// 8 for each element and factor of two of the lengths.
double transform_flops(const CostedOperation& op) {
  double factors = 1;
  for (const int64_t length : integer_list(op.instruction, "fft_length"))
    factors *= std::floor(
        std::log2(static_cast<double>(std::max<int64_t>(1, length))));
  return 8 * factors * element_total(op.operand(0));
}

/// A transpose that only renames dimensions of the same bytes moves nothing.
bool is_bitcast_transpose(const CostedOperation& op) {
  const Dimensions permutation = integer_list(op.instruction, "dimensions");
  const auto layout = [](const Shape& shape) {
    Dimensions minor_to_major = shape.minor_to_major;
    for (size_t d = shape.dimensions.size();
         minor_to_major.size() < shape.dimensions.size();) {
      minor_to_major.push_back(static_cast<int64_t>(--d));
    }
    return minor_to_major;
  };
  const Dimensions input = layout(op.operand(0));
  const Dimensions output = layout(op.instruction.shape);
  if (permutation.size() != input.size() || output.size() != input.size())
    return false;
  for (size_t i = 0; i < input.size(); ++i) {
    if (permutation[static_cast<size_t>(output[i])] != input[i]) return false;
  }
  return true;
}

/// Bytes of the operands from `first` on.
double operand_bytes_from(const CostedOperation& op, size_t first) {
  double bytes = 0;
  for (size_t i = first; i < op.instruction.operands.size(); ++i)
    bytes += op.operand_bytes(i);
  return bytes;
}

}  // namespace

double element_total(const Shape& shape) {
  if (!shape.is_tuple())
    return shape.is_array() ? static_cast<double>(element_count(shape)) : 0;
  double total = 0;
  for (const Shape& element : shape.elements) total += element_total(element);
  return total;
}

double window_elements(const Instruction& instruction) {
  const auto window = window_dimensions(instruction);
  double count = 1;
  if (!window) return count;
  for (const WindowDimension& dimension : *window)
    count *= static_cast<double>(dimension.size);
  return count;
}

/// Flops of opcodes whose count needs no called computation.
double own_flops(const CostedOperation& op) {
  const Instruction& instruction = op.instruction;
  if (facts_of(instruction.opcode).flops == FlopsRule::kEachElement)
    return element_total(instruction.shape);
  switch (instruction.opcode) {
    case Opcode::kMultiplyAdd:
    case Opcode::kMultiplySubtract:
    case Opcode::kNegatedMultiplyAdd:
      return 2 * element_total(instruction.shape);
    case Opcode::kDot:
      return dot_flops(op);
    case Opcode::kConvolution:
      return convolution_flops(op);
    case Opcode::kFft:
      return transform_flops(op);
    case Opcode::kSort: {
      const double n = element_total(op.operand(0));
      return n > 1 ? n * std::ceil(std::log2(n)) : 0;
    }
    case Opcode::kCholesky: {
      const Dimensions& extents = op.operand(0).dimensions;
      return extents.empty() ? 0
                             : element_total(instruction.shape) *
                                   static_cast<double>(extents.back()) / 3;
    }
    case Opcode::kTriangularSolve: {
      const Dimensions& extents = op.operand(0).dimensions;
      return extents.empty() ? 0
                             : element_total(instruction.shape) *
                                   static_cast<double>(extents.back());
    }
    default:
      return 0;
  }
}

double own_bytes(const CostedOperation& op) {
  switch (facts_of(op.instruction.opcode).bytes) {
    case BytesRule::kWhole:
      return operand_bytes_from(op, 0) + op.output_bytes();
    case BytesRule::kNothing:
      return 0;
    case BytesRule::kPart:
      return 2 * op.output_bytes() + operand_bytes_from(op, 1);
    case BytesRule::kUpdate:
      return 2 * op.operand_bytes(1) + operand_bytes_from(op, 2);
    case BytesRule::kOwnRule:
      break;
  }
  switch (op.instruction.opcode) {
    case Opcode::kTuple:
      return static_cast<double>(sizeof(void*) *
                                 op.instruction.operands.size());
    case Opcode::kTranspose:
      return is_bitcast_transpose(op) ? 0
                                      : op.operand_bytes(0) + op.output_bytes();
    case Opcode::kScatter: {
      // n operands, the indices, n updates.
      const size_t arrays = op.instruction.operands.size() / 2;
      double updates = 0;
      for (size_t i = arrays + 1; i < op.instruction.operands.size(); ++i) {
        updates += op.operand_bytes(i);
      }
      // Reads what it updates and the updates, writes the former.
      return 3 * updates + op.operand_bytes(arrays);
    }
    default:
      return 0;
  }
}

/// Applications of the called computation: per element of what is combined.
double applications(const CostedOperation& op) {
  const Instruction& instruction = op.instruction;
  switch (instruction.opcode) {
    case Opcode::kReduce: {
      const Shape& output = instruction.shape.is_tuple()
                                ? instruction.shape.elements[0]
                                : instruction.shape;
      return element_total(op.operand(0)) - element_total(output);
    }
    case Opcode::kReduceWindow: {
      const Shape& output = instruction.shape.is_tuple()
                                ? instruction.shape.elements[0]
                                : instruction.shape;
      return element_total(output) * (window_elements(instruction) - 1);
    }
    case Opcode::kScatter:
      return element_total(op.operand(instruction.operands.size() / 2 + 1));
    case Opcode::kMap:
      return element_total(instruction.shape);
    default:
      return 0;
  }
}

}  // namespace reprise
