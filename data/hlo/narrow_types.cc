// Each computation is built anew, every value in the type that holds it. Of an
// 8-bit float with m bits of mantissa and smallest normal exponent e, x rounds
// to m bits by reduce-precision, which keeps f32's exponents, and below 2^e to
// a multiple of 2^(e - m).
//
// Its bits but for the sign, before the 10 - m last bits of f16's mantissa, are
// the f16 of x * 2^(-14 - e): 2^-14 is f16's smallest normal number, and both
// continue below with the same steps. What f16 has beyond the largest number is
// infinity and NaN, or one more number, where f8e4m3fn has its NaN.
#include "data/hlo/narrow_types.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "data/element.h"
#include "data/hlo/appended_ops.h"
#include "data/hlo/declared_type.h"
#include "data/narrow_type.h"

namespace reprise {
namespace {

constexpr int kHalfMantissa = 10, kHalfSmallestExponent = -14;
constexpr int kByteSign = 0x80, kByteSize = 0x7f, kBelowSign = 8;

bool is_held(PrimitiveType type) { return narrow_type(type) != nullptr; }

const NarrowFloat* float_format(PrimitiveType type) {
  const NarrowType* narrow = narrow_type(type);
  return narrow != nullptr && narrow->holding == PrimitiveType::kBF16
             ? &narrow->format
             : nullptr;
}

double beyond(const NarrowFloat& format) {
  return format.has_infinity ? HUGE_VAL : std::nan("");
}

/// What NaN is among the numbers that f16 has and the format lacks.
double nan_in_half(const NarrowFloat& format) {
  if (format.has_infinity) return std::nan("");
  return format.largest +
         std::ldexp(1.0, std::ilogb(format.largest) - format.mantissa_bits);
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

bool takes_bits(Opcode opcode) {
  return opcode == Opcode::kBitcastConvert || opcode == Opcode::kCustomCall;
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
  Widener(Computation* computation, bool is_entry)
      : computation_(*computation), is_entry_(is_entry) {}

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
    if (instruction.opcode == Opcode::kBitcastConvert && !takes_part_of_byte())
      return with_bits(std::move(instruction), type);
    if (takes_bits(instruction.opcode))
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

  /// Whether it makes several integers of 4 bits of one byte, or the reverse.
  bool takes_part_of_byte() const {
    const int from = primitive_type_bits(type_before(origin_->operands[0]));
    const int to = primitive_type_bits(origin_->shape.type);
    return from != to && std::min(from, to) < 8;
  }

  /// Between conversions from and to what holds its values.
  InstructionId keep_type(Instruction instruction) {
    for (size_t i = 0; i < instruction.operands.size(); ++i) {
      const PrimitiveType type = type_before(origin_->operands[i]);
      if (is_held(type))
        instruction.operands[i] = converted(instruction.operands[i], type);
    }
    const PrimitiveType type = instruction.shape.type;
    const InstructionId same = append(std::move(instruction));
    return is_held(type) ? converted(same, holding_type(type)) : same;
  }

  /// A bitcast-convert of bytes.
  InstructionId with_bits(Instruction instruction, PrimitiveType type) {
    InstructionId& operand = instruction.operands[0];
    operand = bits_of(operand, type_before(origin_->operands[0]));
    instruction.shape.type = stored_type(type);
    const InstructionId bits = append(std::move(instruction));
    if (primitive_type_bits(type) < 8) return cut(bits, type);
    return value_of(bits, type);
  }

  /// What holds the value of stored bytes.
  InstructionId value_of(InstructionId bytes, PrimitiveType type) {
    const NarrowFloat* format = float_format(type);
    if (format == nullptr) return bytes;
    const int zeros = kHalfMantissa - format->mantissa_bits;
    const InstructionId word = converted(bytes, PrimitiveType::kU16);
    const InstructionId half =
        with_number(Opcode::kShiftLeft, masked(word, kByteSize), zeros);
    const InstructionId sign =
        with_number(Opcode::kShiftLeft, masked(word, kByteSign), kBelowSign);
    const InstructionId x =
        converted(bitcast(op(Opcode::kOr, {half, sign}), PrimitiveType::kF16),
                  PrimitiveType::kF32);
    const int exponent = format->smallest_exponent - kHalfSmallestExponent;
    const InstructionId value =
        converted(limited(scaled(x, exponent), *format), PrimitiveType::kBF16);
    bytes_of_[value] = bytes;
    return value;
  }

  /// The reverse.
  InstructionId bits_of(InstructionId value, PrimitiveType type) {
    const NarrowFloat* format = float_format(type);
    if (format == nullptr) return value;
    // As they came, which NaN too.
    const auto known = bytes_of_.find(value);
    if (known != bytes_of_.end()) return known->second;
    const InstructionId given = converted(value, PrimitiveType::kF32);
    const InstructionId is_nan = ops_->compare("NE", given, given);
    const InstructionId x = op(
        Opcode::kSelect, {is_nan, number(given, nan_in_half(*format)), given});
    const int exponent = kHalfSmallestExponent - format->smallest_exponent;
    const InstructionId half =
        converted(scaled(x, exponent), PrimitiveType::kF16);
    const InstructionId word = bitcast(half, PrimitiveType::kU16);
    const int zeros = kHalfMantissa - format->mantissa_bits;
    const InstructionId size =
        masked(with_number(Opcode::kShiftRightLogical, word, zeros), kByteSize);
    const InstructionId sign = masked(
        with_number(Opcode::kShiftRightLogical, word, kBelowSign), kByteSign);
    return converted(op(Opcode::kOr, {size, sign}), PrimitiveType::kU8);
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
        operand = converted(operand, PrimitiveType::kF32);
    }
    instruction.shape.type = PrimitiveType::kF32;
    return converted(
        rounded(append(std::move(instruction)), *float_format(type)),
        PrimitiveType::kBF16);
  }

  InstructionId rounded(InstructionId x, const NarrowFloat& format) {
    Instruction few;
    few.opcode = Opcode::kReducePrecision;
    few.shape = made_[index_of(x)].shape;
    few.operands = {x};
    few.attributes = {
        {"exponent_bits", std::vector<int64_t>{8}},
        {"mantissa_bits", std::vector<int64_t>{format.mantissa_bits}}};
    const InstructionId normal = append(std::move(few));
    const int least = format.smallest_exponent - format.mantissa_bits;
    const InstructionId steps =
        op(Opcode::kMultiply, {x, number(x, std::ldexp(1.0, -least))});
    const InstructionId whole = op(Opcode::kRoundNearestEven, {steps});
    const InstructionId small =
        op(Opcode::kMultiply, {whole, number(x, std::ldexp(1.0, least))});
    const InstructionId border =
        number(x, std::ldexp(1.0, format.smallest_exponent));
    const InstructionId is_small =
        ops_->compare("LT", op(Opcode::kAbs, {x}), border);
    const InstructionId near = op(Opcode::kSelect, {is_small, small, normal});
    return limited(near, format);
  }

  InstructionId limited(InstructionId near, const NarrowFloat& format) {
    const InstructionId largest = number(near, format.largest);
    const InstructionId is_large =
        ops_->compare("LT", largest, op(Opcode::kAbs, {near}));
    const InstructionId other =
        op(Opcode::kMultiply, {near, number(near, beyond(format))});
    return op(Opcode::kSelect, {is_large, other, near});
  }

  /// In 8 bits, then cut to 4.
  InstructionId whole_numbers(Instruction instruction, PrimitiveType type) {
    const bool is_signed = type == PrimitiveType::kS4;
    const bool saturates =
        instruction.opcode == Opcode::kConvert &&
        is_plain_float(made_[index_of(instruction.operands[0])].shape.type);
    instruction.shape.type = holding_type(type);
    const InstructionId x = append(std::move(instruction));
    if (!is_held(type)) return x;
    if (saturates) {
      const InstructionId least = number(x, is_signed ? -8 : 0);
      const InstructionId most = number(x, is_signed ? 7 : 15);
      return op(Opcode::kClamp, {least, x, most});
    }
    return cut(x, type);
  }

  /// To the 4 last bits, of s4 with the sign that they have.
  InstructionId cut(InstructionId x, PrimitiveType type) {
    if (type == PrimitiveType::kU4) return masked(x, 15);
    const InstructionId four = number(x, 4);
    return op(Opcode::kShiftRightArithmetic,
              {op(Opcode::kShiftLeft, {x, four}), four});
  }

  InstructionId append(Instruction step) {
    return ops_->append(std::move(step));
  }

  /// Of the shape and type of its first operand; of a choice its second.
  InstructionId op(Opcode opcode, std::vector<InstructionId> operands) {
    const size_t like = opcode == Opcode::kSelect ? 1 : 0;
    Shape shape = made_[index_of(operands[like])].shape;
    return ops_->op(opcode, std::move(operands), std::move(shape));
  }

  InstructionId converted(InstructionId from, PrimitiveType type) {
    Shape shape = made_[index_of(from)].shape;
    if (shape.type == type) return from;
    shape.type = type;
    return ops_->op(Opcode::kConvert, {from}, std::move(shape));
  }

  InstructionId bitcast(InstructionId from, PrimitiveType type) {
    Shape shape = made_[index_of(from)].shape;
    shape.type = type;
    return ops_->op(Opcode::kBitcastConvert, {from}, std::move(shape));
  }

  InstructionId number(InstructionId like, double value) {
    return ops_->number(value, made_[index_of(like)].shape);
  }

  InstructionId with_number(Opcode opcode, InstructionId x, double value) {
    return op(opcode, {x, number(x, value)});
  }

  InstructionId scaled(InstructionId x, int exponent) {
    if (exponent == 0) return x;
    return with_number(Opcode::kMultiply, x, std::ldexp(1.0, exponent));
  }

  InstructionId masked(InstructionId x, int bits) {
    return with_number(Opcode::kAnd, x, bits);
  }

  PrimitiveType type_before(InstructionId id) const {
    return old_[index_of(id)].shape.type;
  }

  Computation& computation_;
  const bool is_entry_;
  std::vector<Instruction> old_;
  std::vector<Instruction> made_;
  std::vector<InstructionId> values_;    ///< By instruction of `old_`.
  const Instruction* origin_ = nullptr;  ///< What is placed, and its ops.
  std::optional<AppendedOps> ops_;
  /// By the value that holds them, of `made_`: bytes that were given.
  std::map<InstructionId, InstructionId> bytes_of_;
};

}  // namespace

void widen_narrow_types(Module* module) {
  for (size_t i = 0; i < module->computations.size(); ++i) {
    Widener(&module->computations[i], i == index_of(module->entry)).run();
  }
}

}  // namespace reprise
