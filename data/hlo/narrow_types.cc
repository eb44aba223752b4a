// Each computation is built anew, every value in the type that holds it.
#include "data/hlo/narrow_types.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "data/element.h"
#include "data/hlo/declared_type.h"
#include "data/hlo/narrow_ops.h"
#include "data/hlo/wide_sums.h"
#include "data/narrow_type.h"

namespace reprise {
namespace {

constexpr std::string_view kByHalf = "reprise_narrow=\"by_f16\"";

bool is_held(PrimitiveType type) { return narrow_type(type) != nullptr; }

const NarrowFloat* float_format(PrimitiveType type) {
  const NarrowType* narrow = narrow_type(type);
  return narrow != nullptr && narrow->holding == PrimitiveType::kBF16
             ? &narrow->format
             : nullptr;
}

bool has_narrow(const Shape& shape) {
  return is_held(shape.type) ||
         std::any_of(shape.elements.begin(), shape.elements.end(), has_narrow);
}

Shape held(Shape shape) {
  shape.type = holding_type(shape.type);
  for (Shape& element : shape.elements) element = held(std::move(element));
  return shape;
}

/// What gives values that its operands have, or none of a narrow type.
bool keeps_values(const Instruction& instruction) {
  switch (instruction.opcode) {
    case Opcode::kAbs:
    case Opcode::kClamp:
    case Opcode::kCompare:
    case Opcode::kMaximum:
    case Opcode::kMinimum:
    case Opcode::kSelect:
    case Opcode::kCopy:
      return true;
    case Opcode::kConvert:
    case Opcode::kConvolution:
    case Opcode::kDot:
      return !is_held(instruction.shape.type);
    default:
      return facts_of(instruction.opcode).lowering != Lowering::kElement;
  }
}

/// Whether it is a bitcast that gives each element's bits another type, as XLA
/// writes in comparators; those of the entry are steps by now. `all`: of its
/// computation.
bool is_bitcast_in_place(const Instruction& bitcast,
                         const std::vector<Instruction>& all) {
  if (bitcast.opcode != Opcode::kBitcast) return false;
  Shape shape = all[index_of(bitcast.operands[0])].shape;
  const PrimitiveType type = std::exchange(shape.type, bitcast.shape.type);
  return type != shape.type && shape == bitcast.shape &&
         primitive_type_bits(type) == primitive_type_bits(shape.type);
}

class Widener {
 public:
  /// `by_half`: all that is rounded is rounded to f16 before.
  Widener(Computation* computation, bool is_entry, bool by_half)
      : computation_(*computation), is_entry_(is_entry), by_half_(by_half) {}

  void run() {
    const std::vector<Instruction>& all = computation_.instructions;
    if (std::none_of(all.begin(), all.end(),
                     [](const Instruction& i) { return has_narrow(i.shape); }))
      return;
    old_ = std::move(computation_.instructions);
    for (const Instruction& instruction : old_) {
      origin_ = &instruction;
      ops_.emplace(instruction, 'n', &made_);
      values_.push_back(place(instruction));
    }
    const InstructionId root = computation_.root;
    computation_.root = is_entry_ ? result(root) : values_[index_of(root)];
    const Shape& written = old_[index_of(root)].shape;
    if (is_entry_ && has_narrow(written))
      declare_type(written, &made_[index_of(computation_.root)]);
    computation_.instructions = std::move(made_);
    if (is_entry_) drop_unread_of_border(root);
  }

 private:
  /// What stands for a parameter that is a result as it came, and the root that
  /// another took the place of.
  void drop_unread_of_border(InstructionId root) {
    std::set<std::string_view> written;
    for (const Instruction& instruction : old_)
      written.insert(instruction.name);
    const Instruction& before = old_[index_of(root)];
    if (before.opcode == Opcode::kTuple) written.erase(before.name);
    drop_unread(
        [&](const Instruction& op) { return !written.contains(op.name); },
        &computation_);
  }

  InstructionId place(Instruction instruction) {
    renumber_references(values_, &instruction);
    const PrimitiveType type = instruction.shape.type;
    if (is_entry_ && is_held(type) &&
        instruction.opcode == Opcode::kParameter) {
      declare_type(instruction.shape, &instruction);
      instruction.shape.type = stored_type(type);
      return value_of(append(std::move(instruction)), type);
    }
    if (is_bitcast_in_place(*origin_, old_))
      instruction.opcode = Opcode::kBitcastConvert;
    if (instruction.opcode == Opcode::kBitcastConvert)
      return with_bits(std::move(instruction), type);
    if (instruction.opcode == Opcode::kCustomCall)
      return keep_type(std::move(instruction));
    if (keeps_values(instruction)) {
      instruction.shape = held(std::move(instruction.shape));
      return append(std::move(instruction));
    }
    if (!is_held(type) && !takes_narrow())
      return append(std::move(instruction));
    return float_format(type) != nullptr
               ? arithmetic(std::move(instruction), type)
               : whole_numbers(std::move(instruction), type);
  }

  bool takes_narrow() const {
    return std::any_of(origin_->operands.begin(), origin_->operands.end(),
                       [&](InstructionId id) {
                         return is_held(old_[index_of(id)].shape.type);
                       });
  }

  /// Between conversions from and to what holds its values.
  InstructionId keep_type(Instruction instruction) {
    for (size_t i = 0; i < instruction.operands.size(); ++i) {
      const PrimitiveType type = type_before(origin_->operands[i]);
      if (is_held(type))
        instruction.operands[i] =
            ops_->converted(instruction.operands[i], type);
    }
    const PrimitiveType type = instruction.shape.type;
    const InstructionId same = append(std::move(instruction));
    return is_held(type) ? ops_->converted(same, holding_type(type)) : same;
  }

  InstructionId with_bits(Instruction instruction, PrimitiveType type) {
    const PrimitiveType given = type_before(origin_->operands[0]);
    const int from = primitive_type_bits(given), to = primitive_type_bits(type);
    const InstructionId bits = bits_of(instruction.operands[0], given);
    if (from != to && std::min(from, to) < 8) {
      instruction.operands = {from < to ? joined(bits, from)
                                        : divided(bits, from)};
    } else {
      instruction.operands = {bits};
    }
    instruction.shape.type = stored_type(type);
    const InstructionId made = append(std::move(instruction));
    const bool is_cut = to < 8 && float_format(type) == nullptr;
    return is_cut ? cut(made, type) : value_of(made, type);
  }

  /// Bytes, or less, each of several elements.
  InstructionId joined(InstructionId bits, int from) {
    const int to = primitive_type_bits(origin_->shape.type);
    std::vector<int64_t> dimensions = origin_->shape.dimensions;
    if (to > 8) dimensions.push_back(to / 8);
    dimensions.push_back(std::min(to, 8) / from);
    const InstructionId parts = ops_->bitcast(bits, PrimitiveType::kU8);
    return ops_->packed(ops_->reshaped(parts, std::move(dimensions)), from);
  }

  /// Bytes, of which each has several elements, as one byte an element.
  InstructionId divided(InstructionId bits, int from) {
    const int to = primitive_type_bits(origin_->shape.type);
    Shape bytes = made_[index_of(bits)].shape;
    bytes.type = PrimitiveType::kU8;
    if (from > 8) {
      bytes = array_of(bytes.type, bytes.dimensions);
      bytes.dimensions.push_back(from / 8);
      bits = ops_->op(Opcode::kBitcastConvert, {bits}, bytes);
    }
    const InstructionId parts = ops_->unpacked(ops_->bitcast(bits, bytes.type),
                                               to, std::min(from, 8) / to);
    return ops_->reshaped(parts, origin_->shape.dimensions);
  }

  /// What holds the value of stored bytes.
  InstructionId value_of(InstructionId bytes, PrimitiveType type) {
    const NarrowFloat* format = float_format(type);
    if (format == nullptr) return bytes;
    const InstructionId value = ops_->value_of(bytes, *format);
    bytes_of_[value] = bytes;
    return value;
  }

  /// The reverse.
  InstructionId bits_of(InstructionId value, PrimitiveType type) {
    const NarrowFloat* format = float_format(type);
    if (format == nullptr) return value;
    // As they came, which NaN too.
    const auto known = bytes_of_.find(value);
    return known != bytes_of_.end() ? known->second
                                    : ops_->bits_of(value, *format);
  }

  /// Of the entry: the root, each array as its bytes.
  InstructionId result(InstructionId root) {
    const Shape& shape = old_[index_of(root)].shape;
    const InstructionId value = values_[index_of(root)];
    if (!has_narrow(shape)) return value;
    ops_.emplace(old_[index_of(root)], 'r', &made_);
    if (shape.is_array()) return bits_of(value, shape.type);
    Shape whole = shape;
    std::vector<InstructionId> elements;
    for (size_t i = 0; i < shape.elements.size(); ++i) {
      const InstructionId element = element_of(value, i);
      elements.push_back(bits_of(element, shape.elements[i].type));
      whole.elements[i] = made_[index_of(elements.back())].shape;
    }
    return ops_->op(Opcode::kTuple, std::move(elements), std::move(whole));
  }

  InstructionId element_of(InstructionId tuple, size_t i) {
    const Instruction& made = made_[index_of(tuple)];
    if (made.opcode == Opcode::kTuple) return made.operands[i];
    return ops_->op(Opcode::kGetTupleElement, {tuple}, made.shape.elements[i],
                    {{"index", std::vector<int64_t>{static_cast<int64_t>(i)}}});
  }

  /// In f32, then rounded.
  InstructionId arithmetic(Instruction instruction, PrimitiveType type) {
    if (instruction.opcode != Opcode::kDot &&
        instruction.opcode != Opcode::kConvolution) {
      for (InstructionId& operand : instruction.operands)
        operand = ops_->converted(operand, PrimitiveType::kF32);
    }
    instruction.shape.type = PrimitiveType::kF32;
    const bool by_half = rounds_by_half(type);
    InstructionId x = append(std::move(instruction));
    if (by_half) {
      x = ops_->converted(ops_->converted(x, PrimitiveType::kF16),
                          PrimitiveType::kF32);
    }
    return ops_->converted(ops_->rounded(x, *float_format(type)),
                           PrimitiveType::kBF16);
  }

  bool rounds_by_half(PrimitiveType type) const {
    switch (type) {
      case PrimitiveType::kF8E4M3FN:
      case PrimitiveType::kF8E5M2:
      case PrimitiveType::kF8E4M3B11FNUZ:
      case PrimitiveType::kF4E2M1FN:
        return by_half_ || has_note(origin_->attributes, kByHalf);
      default:
        return false;
    }
  }

  /// In 8 bits, then cut to 4 or 2.
  InstructionId whole_numbers(Instruction instruction, PrimitiveType type) {
    const bool saturates =
        instruction.opcode == Opcode::kConvert &&
        is_plain_float(made_[index_of(instruction.operands[0])].shape.type);
    instruction.shape.type = holding_type(type);
    const InstructionId x = is_held(type)
                                ? of_few_bits(std::move(instruction), type)
                                : append(std::move(instruction));
    if (!is_held(type)) return x;
    if (!saturates) return cut(x, type);
    const int count = 1 << primitive_type_bits(type);
    const int least = is_signed(type) ? -count / 2 : 0;
    const InstructionId lowest = ops_->number_like(x, least);
    const InstructionId highest = ops_->number_like(x, least + count - 1);
    return ops_->like(Opcode::kClamp, {lowest, x, highest});
  }

  /// In 8 bits, where an op that reads an operand's bits from above finds what
  /// the type has there. XLA takes 4 bits for 8 where it counts ones and where
  /// it asks for the upper half of a product.
  InstructionId of_few_bits(Instruction instruction, PrimitiveType type) {
    const int bits = primitive_type_bits(type);
    switch (instruction.opcode) {
      case Opcode::kClz:
        instruction.operands[0] = without_sign(instruction.operands[0], bits);
        return ops_->with_number(Opcode::kSubtract,
                                 append(std::move(instruction)), 8 - bits);
      case Opcode::kPopulationCount:
        if (bits == 4) break;
        [[fallthrough]];
      case Opcode::kShiftRightLogical:
        instruction.operands[0] = without_sign(instruction.operands[0], bits);
        break;
      case Opcode::kShiftRightArithmetic:
        instruction.operands[0] = with_sign(instruction.operands[0], bits);
        break;
      case Opcode::kMultiplyHigh:
        if (bits == 4) break;
        instruction.opcode = Opcode::kMultiply;
        return ops_->with_number(Opcode::kShiftRightArithmetic,
                                 append(std::move(instruction)), bits);
      default:
        break;
    }
    return append(std::move(instruction));
  }

  static bool is_signed(PrimitiveType type) {
    return holding_type(type) == PrimitiveType::kS8;
  }

  /// To the type's last bits, with the sign that they have.
  InstructionId cut(InstructionId x, PrimitiveType type) {
    const int bits = primitive_type_bits(type);
    return is_signed(type) ? with_sign(x, bits) : without_sign(x, bits);
  }

  /// The last bits, the first of them repeated before them.
  InstructionId with_sign(InstructionId x, int bits) {
    const InstructionId up = ops_->with_number(Opcode::kShiftLeft, x, 8 - bits);
    return ops_->with_number(Opcode::kShiftRightArithmetic, up, 8 - bits);
  }

  /// The last bits, zeros before them.
  InstructionId without_sign(InstructionId x, int bits) {
    return ops_->with_number(Opcode::kAnd, x, (1 << bits) - 1);
  }

  InstructionId append(Instruction step) {
    return ops_->append(std::move(step));
  }

  PrimitiveType type_before(InstructionId id) const {
    return old_[index_of(id)].shape.type;
  }

  Computation& computation_;
  const bool is_entry_, by_half_;
  std::vector<Instruction> old_;
  std::vector<Instruction> made_;
  std::vector<InstructionId> values_;    ///< By instruction of `old_`.
  const Instruction* origin_ = nullptr;  ///< What is placed, and its ops.
  std::optional<NarrowOps> ops_;
  /// By the value that holds them, of `made_`: bytes that were given.
  std::map<InstructionId, InstructionId> bytes_of_;
};

}  // namespace

void widen_narrow_types(Module* module) {
  combine_in_wider_types(module);
  const bool by_half = has_note(module->attributes, kByHalf);
  for (size_t i = 0; i < module->computations.size(); ++i) {
    Widener(&module->computations[i], i == index_of(module->entry), by_half)
        .run();
  }
}

}  // namespace reprise
