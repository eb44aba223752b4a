#include "runtime/cpu/exact_sums.h"

#include <utility>

#include "data/hlo/hlo.h"

namespace reprise {
namespace {

/// The largest magnitude of a value of a type; 0 of types that are not small.
int64_t most_of(PrimitiveType type) {
  switch (type) {
    case PrimitiveType::kPred:
      return 1;
    case PrimitiveType::kS8:
      return 128;
    case PrimitiveType::kU8:
      return 255;
    default:
      return 0;
  }
}

/// Whether a conversion of a small type keeps every value.
bool keeps_values(PrimitiveType from, PrimitiveType to) {
  return to == PrimitiveType::kS32 || to == PrimitiveType::kS64 ||
         ((to == PrimitiveType::kU32 || to == PrimitiveType::kU64) &&
          from != PrimitiveType::kS8);
}

/// The largest magnitude of what an operand holds, seen through views and one
/// conversion; 0 where it is not known.
int64_t most_held(const Computation& entry, InstructionId id) {
  const PrimitiveType type = entry.at(id).shape.type;
  bool is_converted = false;
  while (most_of(entry.at(id).shape.type) == 0) {
    const Instruction& value = entry.at(id);
    switch (value.opcode) {
      case Opcode::kConvert:
        if (std::exchange(is_converted, true)) return 0;
        break;
      case Opcode::kCopy:
      case Opcode::kReshape:
      case Opcode::kReverse:
      case Opcode::kSlice:
      case Opcode::kTranspose:
        break;
      default:
        return 0;
    }
    id = value.operands[0];
  }
  const PrimitiveType held = entry.at(id).shape.type;
  return is_converted && !keeps_values(held, type) ? 0 : most_of(held);
}

}  // namespace

int64_t exact_depth(const Computation& entry, const Instruction& product) {
  const int64_t most = most_held(entry, product.operands[0]) *
                       most_held(entry, product.operands[1]);
  return most == 0 ? 0 : (int64_t{1} << 24) / most;
}

}  // namespace reprise
