// Of a float with m bits of mantissa and smallest normal exponent e, x rounds
// to m bits by reduce-precision, which keeps f32's exponents, and below 2^e to
// a multiple of 2^(e - m). Its bits but for the sign stand before the 23 - m
// last ones of f32's mantissa, where f32's exponents are 126 + e larger; below
// 2^e they count multiples of 2^(e - m).
//
// Denormals of f32 are zeros for arithmetic, and the one that a format without
// a sign has is moved and chosen by its bits alone.
#include "data/hlo/narrow_ops.h"

#include <cmath>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "data/hlo/hlo.h"

namespace reprise {
namespace {

constexpr int kMantissa = 23, kSmallestExponent = -126;
constexpr double kInfinityBits = 0x7f800000, kHalfOfMantissa = 0x400000;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr auto kWord = PrimitiveType::kS32;

/// How much larger f32's exponents are.
int exponents_apart(const NarrowFloat& format) {
  return format.smallest_exponent - kSmallestExponent;
}

int sign_bit(const NarrowFloat& format) { return 1 << (format.bits - 1); }

}  // namespace

InstructionId NarrowOps::rounded(InstructionId x, const NarrowFloat& format) {
  if (!format.has_sign) return without_sign(x, format);
  const InstructionId normal =
      op(Opcode::kReducePrecision, {x}, shape_of(x),
         {{"exponent_bits", std::vector<int64_t>{8}},
          {"mantissa_bits", std::vector<int64_t>{format.mantissa_bits}}});
  const int step = format.smallest_exponent - format.mantissa_bits;
  const InstructionId steps =
      with_number(Opcode::kMultiply, x, std::ldexp(1.0, -step));
  const InstructionId small =
      with_number(Opcode::kMultiply, like(Opcode::kRoundNearestEven, {steps}),
                  std::ldexp(1.0, step));
  const InstructionId is_small = compared(
      "LT", like(Opcode::kAbs, {x}), std::ldexp(1.0, format.smallest_exponent));
  const InstructionId near =
      limited(like(Opcode::kSelect, {is_small, small, normal}), format);
  if (format.beyond != BeyondLargest::kNanForMinusZero) return near;
  return chosen(compared("EQ", near, 0), 0, near);
}

/// Ties upwards: half of a mantissa more, then without the mantissa.
InstructionId NarrowOps::without_sign(InstructionId x,
                                      const NarrowFloat& format) {
  const InstructionId bits = bitcast(x, kWord);
  const InstructionId up = with_number(
      Opcode::kAnd, with_number(Opcode::kAdd, bits, kHalfOfMantissa),
      kInfinityBits);
  const InstructionId near = bitcast(
      chosen(compared("LE", bits, kHalfOfMantissa), kHalfOfMantissa, up),
      PrimitiveType::kF32);
  const InstructionId is_none =
      like(Opcode::kOr,
           {compared("LE", bits, 0), compared("GE", bits, kInfinityBits)});
  return limited(chosen(is_none, kNan, near), format);
}

InstructionId NarrowOps::limited(InstructionId near,
                                 const NarrowFloat& format) {
  if (format.beyond == BeyondLargest::kLargest) {
    const InstructionId within = like(
        Opcode::kMinimum,
        {number_like(near, format.largest),
         like(Opcode::kMaximum, {number_like(near, -format.largest), near})});
    return chosen(compare("NE", near, near), -0.0, within);
  }
  const bool is_infinite = format.beyond == BeyondLargest::kInfinity;
  const InstructionId is_large =
      compared("GT", like(Opcode::kAbs, {near}), format.largest);
  const InstructionId other =
      with_number(Opcode::kMultiply, near, is_infinite ? HUGE_VAL : kNan);
  return like(Opcode::kSelect, {is_large, other, near});
}

InstructionId NarrowOps::value_of(InstructionId bytes,
                                  const NarrowFloat& format) {
  const InstructionId word = converted(bytes, kWord);
  if (!format.has_sign) {
    const InstructionId power =
        with_number(Opcode::kShiftLeft, word, kMantissa);
    const InstructionId known =
        bitcast(chosen(compared("EQ", word, 0), kHalfOfMantissa, power),
                PrimitiveType::kF32);
    return converted(limited(known, format), PrimitiveType::kBF16);
  }
  const int sign = sign_bit(format);
  const InstructionId bits = with_number(Opcode::kAnd, word, sign - 1);
  const InstructionId high =
      with_number(Opcode::kShiftLeft, with_number(Opcode::kAnd, word, sign),
                  32 - format.bits);
  const InstructionId size = bitcast(size_of(bits, format), kWord);
  InstructionId value =
      bitcast(like(Opcode::kOr, {size, high}), PrimitiveType::kF32);
  if (format.beyond != BeyondLargest::kLargest) value = limited(value, format);
  if (format.beyond == BeyondLargest::kInfinity) {
    const int infinity = narrow_float_bits(format, HUGE_VAL);
    value = chosen(compared("GT", bits, infinity), kNan, value);
  } else if (format.beyond == BeyondLargest::kNanForMinusZero) {
    value = chosen(compared("EQ", word, sign), kNan, value);
  }
  return converted(value, PrimitiveType::kBF16);
}

/// In f32, of bits without a sign.
InstructionId NarrowOps::size_of(InstructionId bits,
                                 const NarrowFloat& format) {
  const InstructionId moved =
      with_number(Opcode::kShiftLeft, bits, kMantissa - format.mantissa_bits);
  const InstructionId normal =
      bitcast(with_number(Opcode::kAdd, moved,
                          std::ldexp(exponents_apart(format), kMantissa)),
              PrimitiveType::kF32);
  const InstructionId small = with_number(
      Opcode::kMultiply, converted(bits, PrimitiveType::kF32),
      std::ldexp(1.0, format.smallest_exponent - format.mantissa_bits));
  const InstructionId is_small =
      compared("LT", bits, 1 << format.mantissa_bits);
  return like(Opcode::kSelect, {is_small, small, normal});
}

InstructionId NarrowOps::bits_of(InstructionId value,
                                 const NarrowFloat& format) {
  const InstructionId x = converted(value, PrimitiveType::kF32);
  const InstructionId word = bitcast(x, kWord);
  const int sign = sign_bit(format);
  InstructionId bits = with_number(Opcode::kShiftRightLogical, word, kMantissa);
  if (format.has_sign) {
    const InstructionId size = like(Opcode::kAbs, {x});
    const InstructionId moved =
        with_number(Opcode::kShiftRightLogical, bitcast(size, kWord),
                    kMantissa - format.mantissa_bits);
    const InstructionId normal =
        with_number(Opcode::kSubtract, moved,
                    std::ldexp(exponents_apart(format), format.mantissa_bits));
    const InstructionId small = converted(
        with_number(
            Opcode::kMultiply, size,
            std::ldexp(1.0, format.mantissa_bits - format.smallest_exponent)),
        kWord);
    const InstructionId is_small =
        compared("LT", size, std::ldexp(1.0, format.smallest_exponent));
    bits = like(Opcode::kSelect, {is_small, small, normal});
    if (format.beyond == BeyondLargest::kInfinity) {
      bits = chosen(compared("GT", size, format.largest),
                    narrow_float_bits(format, HUGE_VAL), bits);
    }
    const InstructionId high = with_number(
        Opcode::kAnd,
        with_number(Opcode::kShiftRightLogical, word, 32 - format.bits), sign);
    bits = like(Opcode::kOr, {bits, high});
  }
  const InstructionId is_nan = compare("NE", x, x);
  return converted(chosen(is_nan, narrow_float_bits(format, kNan), bits),
                   PrimitiveType::kU8);
}

InstructionId NarrowOps::packed(InstructionId parts, int bits) {
  std::vector<SliceDimension> window;
  for (const int64_t extent : shape_of(parts).dimensions)
    window.push_back({.start = 0, .limit = extent});
  const int64_t count = window.back().limit;
  std::vector<int64_t> rest = shape_of(parts).dimensions;
  rest.pop_back();
  InstructionId bytes{};
  for (int64_t i = 0; i < count; ++i) {
    window.back() = {.start = i, .limit = i + 1};
    std::vector<int64_t> one = rest;
    one.push_back(1);
    const InstructionId part =
        op(Opcode::kSlice, {parts}, array_of(PrimitiveType::kU8, one),
           {slice_attribute(window)});
    const InstructionId known =
        with_number(Opcode::kAnd, reshaped(part, rest), (1 << bits) - 1);
    const InstructionId moved =
        with_number(Opcode::kShiftLeft, known, static_cast<double>(i * bits));
    bytes = i == 0 ? moved : like(Opcode::kOr, {bytes, moved});
  }
  return bytes;
}

InstructionId NarrowOps::unpacked(InstructionId bytes, int bits,
                                  int64_t count) {
  std::vector<int64_t> dimensions = shape_of(bytes).dimensions, all;
  const auto last = static_cast<int64_t>(dimensions.size());
  for (int64_t d = 0; d < last; ++d) all.push_back(d);
  dimensions.push_back(count);
  const Shape shape = array_of(PrimitiveType::kU8, dimensions);
  const InstructionId each =
      op(Opcode::kBroadcast, {bytes}, shape, {{"dimensions", all}});
  const InstructionId place =
      op(Opcode::kIota, {}, shape,
         {{"iota_dimension", std::vector<int64_t>{last}}});
  return like(Opcode::kShiftRightLogical,
              {each, with_number(Opcode::kMultiply, place, bits)});
}

InstructionId NarrowOps::like(Opcode opcode,
                              std::vector<InstructionId> operands) {
  const size_t first = opcode == Opcode::kSelect ? 1 : 0;
  Shape shape = shape_of(operands[first]);
  return op(opcode, std::move(operands), std::move(shape));
}

InstructionId NarrowOps::converted(InstructionId from, PrimitiveType type) {
  Shape shape = shape_of(from);
  if (shape.type == type) return from;
  shape.type = type;
  return op(Opcode::kConvert, {from}, std::move(shape));
}

InstructionId NarrowOps::bitcast(InstructionId from, PrimitiveType type) {
  Shape shape = shape_of(from);
  if (shape.type == type) return from;
  shape.type = type;
  return op(Opcode::kBitcastConvert, {from}, std::move(shape));
}

InstructionId NarrowOps::number_like(InstructionId other, double value) {
  return number(value, shape_of(other));
}

InstructionId NarrowOps::with_number(Opcode opcode, InstructionId x,
                                     double value) {
  return like(opcode, {x, number_like(x, value)});
}

InstructionId NarrowOps::compared(std::string_view direction, InstructionId x,
                                  double value) {
  return compare(direction, x, number_like(x, value));
}

/// `value` where the condition holds.
InstructionId NarrowOps::chosen(InstructionId condition, double value,
                                InstructionId x) {
  return like(Opcode::kSelect, {condition, number_like(x, value), x});
}

}  // namespace reprise
