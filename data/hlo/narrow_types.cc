// Each computation is built anew, every value in the type that holds it. Of an
// 8-bit float with m bits of mantissa and smallest normal exponent e, x rounds
// to m bits by reduce-precision, which keeps f32's exponents, and below 2^e to
// a multiple of 2^(e - m).
#include "data/hlo/narrow_types.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "data/hlo/appended_ops.h"

namespace reprise {
namespace {

struct FloatFormat {
  int mantissa_bits = 0;
  int smallest_exponent = 0;  ///< Of normal numbers.
  double largest = 0;
  double beyond = 0;  ///< What is above the largest.
};

std::optional<FloatFormat> float_format(PrimitiveType type) {
  switch (type) {
    case PrimitiveType::kF8E4M3FN:
      return FloatFormat{3, -6, 448, std::nan("")};
    case PrimitiveType::kF8E5M2:
      return FloatFormat{2, -14, 57344, HUGE_VAL};
    default:
      return std::nullopt;
  }
}

bool is_held(PrimitiveType type) { return holding_type(type) != type; }

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
    computation_.root = values_[index_of(computation_.root)];
    computation_.instructions = std::move(made_);
  }

 private:
  InstructionId place(Instruction instruction) {
    renumber_references(values_, &instruction);
    const bool is_border =
        is_entry_ && (instruction.opcode == Opcode::kParameter ||
                      origin_ == &old_[index_of(computation_.root)]);
    if (is_border || takes_bits(instruction.opcode))
      return keep_type(std::move(instruction), is_border);
    const PrimitiveType type = instruction.shape.type;
    if (keeps_values(instruction)) {
      instruction.shape = held(std::move(instruction.shape));
      return append(std::move(instruction));
    }
    if (!is_held(type) && !takes_narrow())
      return append(std::move(instruction));
    return float_format(type) ? arithmetic(std::move(instruction), type)
                              : whole_numbers(std::move(instruction), type);
  }

  bool takes_narrow() const {
    return std::any_of(origin_->operands.begin(), origin_->operands.end(),
                       [&](InstructionId id) {
                         return is_held(old_[index_of(id)].shape.type);
                       });
  }

  /// Between conversions from and to what holds its values.
  InstructionId keep_type(Instruction instruction, bool is_border) {
    for (size_t i = 0; i < instruction.operands.size(); ++i) {
      const Shape& shape = old_[index_of(origin_->operands[i])].shape;
      if (is_held(shape.type))
        instruction.operands[i] =
            converted(instruction.operands[i], shape.type);
    }
    const PrimitiveType type = instruction.shape.type;
    const bool is_result =
        is_border && instruction.opcode != Opcode::kParameter;
    const InstructionId same = append(std::move(instruction));
    return is_held(type) && !is_result ? converted(same, holding_type(type))
                                       : same;
  }

  /// In f32, then rounded.
  InstructionId arithmetic(Instruction instruction, PrimitiveType type) {
    if (instruction.opcode != Opcode::kDot &&
        instruction.opcode != Opcode::kConvolution) {
      for (InstructionId& operand : instruction.operands)
        operand = converted(operand, PrimitiveType::kF32);
    }
    instruction.shape.type = PrimitiveType::kF32;
    return rounded(append(std::move(instruction)), *float_format(type));
  }

  InstructionId rounded(InstructionId x, const FloatFormat& format) {
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
    const InstructionId largest = number(x, format.largest);
    const InstructionId is_large =
        ops_->compare("LT", largest, op(Opcode::kAbs, {near}));
    const InstructionId beyond =
        op(Opcode::kMultiply, {near, number(x, format.beyond)});
    return converted(op(Opcode::kSelect, {is_large, beyond, near}),
                     PrimitiveType::kBF16);
  }

  /// In 8 bits, then cut to 4.
  InstructionId whole_numbers(Instruction instruction, PrimitiveType type) {
    const bool is_signed = type == PrimitiveType::kS4;
    const bool saturates = instruction.opcode == Opcode::kConvert &&
                           is_float(made_[index_of(instruction.operands[0])]);
    instruction.shape.type = holding_type(type);
    const InstructionId x = append(std::move(instruction));
    if (!is_held(type)) return x;
    if (saturates) {
      const InstructionId least = number(x, is_signed ? -8 : 0);
      const InstructionId most = number(x, is_signed ? 7 : 15);
      return op(Opcode::kClamp, {least, x, most});
    }
    if (!is_signed) return op(Opcode::kAnd, {x, number(x, 15)});
    const InstructionId four = number(x, 4);
    return op(Opcode::kShiftRightArithmetic,
              {op(Opcode::kShiftLeft, {x, four}), four});
  }

  static bool is_float(const Instruction& instruction) {
    switch (instruction.shape.type) {
      case PrimitiveType::kF16:
      case PrimitiveType::kBF16:
      case PrimitiveType::kF32:
      case PrimitiveType::kF64:
        return true;
      default:
        return false;
    }
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

  InstructionId number(InstructionId like, double value) {
    return ops_->number(value, made_[index_of(like)].shape);
  }

  Computation& computation_;
  const bool is_entry_;
  std::vector<Instruction> old_;
  std::vector<Instruction> made_;
  std::vector<InstructionId> values_;    ///< By instruction of `old_`.
  const Instruction* origin_ = nullptr;  ///< What is placed, and its ops.
  std::optional<AppendedOps> ops_;
};

}  // namespace

PrimitiveType holding_type(PrimitiveType type) {
  switch (type) {
    case PrimitiveType::kF8E4M3FN:
    case PrimitiveType::kF8E5M2:
      return PrimitiveType::kBF16;
    case PrimitiveType::kS4:
      return PrimitiveType::kS8;
    case PrimitiveType::kU4:
      return PrimitiveType::kU8;
    default:
      return type;
  }
}

void widen_narrow_types(Module* module) {
  for (size_t i = 0; i < module->computations.size(); ++i) {
    Widener(&module->computations[i], i == index_of(module->entry)).run();
  }
}

}  // namespace reprise
