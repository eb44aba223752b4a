// Rules of single opcodes, without what they call. Internal to the cost
// analysis.
#pragma once

#include "data/hlo/module.h"

namespace reprise {

/// One instruction and the computation that holds its operands.
struct CostedOperation {
  const Computation& computation;
  const Instruction& instruction;

  const Shape& operand(size_t i) const {
    return computation.at(instruction.operands[i]).shape;
  }
  double operand_bytes(size_t i) const {
    return static_cast<double>(byte_size(operand(i)));
  }
  double output_bytes() const {
    return static_cast<double>(byte_size(computed_shape(instruction)));
  }
};

/// Elements of an array, or of all arrays of a tuple.
double element_total(const Shape& shape);
/// Flops but those of called computations.
double own_flops(const CostedOperation& op);
/// Bytes read and written; control flow and fusions are priced by their callees
/// instead.
double own_bytes(const CostedOperation& op);
/// How often `to_apply` of a reduction, scatter or map is applied.
double applications(const CostedOperation& op);
/// Elements of one window.
double window_elements(const Instruction& instruction);

}  // namespace reprise
