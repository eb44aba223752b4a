#include "data/narrow_type.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace reprise {
namespace {

using T = PrimitiveType;

using B = BeyondLargest;

constexpr std::array<NarrowType, 13> kNarrowTypes = {{
    {T::kF8E4M3FN, T::kBF16, T::kU8, T::kF8E4M3FN, {3, -6, 448, B::kNan}},
    {T::kF8E5M2, T::kBF16, T::kU8, T::kF8E5M2, {2, -14, 57344, B::kInfinity}},
    {T::kF8E4M3FNUZ,
     T::kBF16,
     T::kU8,
     T::kU8,
     {3, -7, 240, B::kNanForMinusZero}},
    {T::kF8E5M2FNUZ,
     T::kBF16,
     T::kU8,
     T::kU8,
     {2, -15, 57344, B::kNanForMinusZero}},
    {T::kF8E4M3B11FNUZ,
     T::kBF16,
     T::kU8,
     T::kU8,
     {3, -10, 30, B::kNanForMinusZero}},
    {T::kF8E4M3, T::kBF16, T::kU8, T::kU8, {3, -6, 240, B::kInfinity}},
    {T::kF8E3M4, T::kBF16, T::kU8, T::kU8, {4, -2, 15.5, B::kInfinity}},
    {T::kF8E8M0FNU,
     T::kBF16,
     T::kU8,
     T::kU8,
     {0, -126, 0x1p127, B::kNan, 8, false}},
    {T::kF4E2M1FN, T::kBF16, T::kU8, T::kU8, {1, 0, 6, B::kLargest, 4}},
    {T::kS4, T::kS8, T::kS8, T::kS8, {}},
    {T::kU4, T::kU8, T::kU8, T::kU8, {}},
    {T::kS2, T::kS8, T::kS8, T::kS8, {}},
    {T::kU2, T::kU8, T::kU8, T::kU8, {}},
}};

constexpr int kNanWithoutSign = 0xff;

int sign_bit(const NarrowFloat& format) { return 1 << (format.bits - 1); }

/// Of numbers that are not negative.
int size_bits(const NarrowFloat& format, double size) {
  const int exponent = std::max(std::ilogb(size), format.smallest_exponent);
  const auto mantissa = static_cast<int>(
      std::nearbyint(std::ldexp(size, format.mantissa_bits - exponent)));
  // The leading bit of a normal mantissa carries into the exponent.
  return ((exponent - format.smallest_exponent) << format.mantissa_bits) +
         mantissa;
}

int bits_of_nan(const NarrowFloat& format) {
  const int beyond = size_bits(format, format.largest) + 1;
  switch (format.beyond) {
    case B::kInfinity:
      return beyond | 1 << (format.mantissa_bits - 1);
    case B::kNan:
      return beyond;
    case B::kNanForMinusZero:
    case B::kLargest:  // None: XLA makes -0 of the NaN that is not negative.
      break;
  }
  return sign_bit(format);
}

/// Of a format without a sign. XLA makes the smallest normal number of all that
/// is between it and its half.
int power_bits(const NarrowFloat& format, double value) {
  if (!(value > 0) || std::isinf(value)) return kNanWithoutSign;
  const double least = std::ldexp(1, format.smallest_exponent - 1);
  if (value <= least) return 0;
  const int exponent = std::ilogb(value);
  const int up = value >= 1.5 * std::ldexp(1, exponent) ? 1 : 0;
  return std::clamp(exponent + up - format.smallest_exponent + 1, 1,
                    kNanWithoutSign);
}

}  // namespace

const NarrowType* narrow_type(PrimitiveType type) {
  const auto* found =
      std::find_if(kNarrowTypes.begin(), kNarrowTypes.end(),
                   [&](const NarrowType& row) { return row.type == type; });
  return found == kNarrowTypes.end() ? nullptr : &*found;
}

PrimitiveType holding_type(PrimitiveType type) {
  const NarrowType* narrow = narrow_type(type);
  return narrow == nullptr ? type : narrow->holding;
}

PrimitiveType stored_type(PrimitiveType type) {
  const NarrowType* narrow = narrow_type(type);
  return narrow == nullptr ? type : narrow->stored;
}

PrimitiveType filed_type(PrimitiveType type) {
  const NarrowType* narrow = narrow_type(type);
  return narrow == nullptr ? type : narrow->filed;
}

size_t stored_bytes(PrimitiveType type) {
  return static_cast<size_t>(primitive_type_bits(stored_type(type))) / 8;
}

uint8_t narrow_float_bits(const NarrowFloat& format, double value) {
  if (!format.has_sign) return static_cast<uint8_t>(power_bits(format, value));
  if (std::isnan(value)) return static_cast<uint8_t>(bits_of_nan(format));
  const int sign = std::signbit(value) ? sign_bit(format) : 0;
  const int largest = size_bits(format, format.largest);
  // Twice the largest is beyond it and still has a size.
  const double size = std::min(std::abs(value), 2 * format.largest);
  const int bits = size == 0 ? 0 : size_bits(format, size);
  const bool is_beyond = bits > largest;
  const bool has_minus_zero = format.beyond != B::kNanForMinusZero;
  if (is_beyond && !has_minus_zero)
    return static_cast<uint8_t>(bits_of_nan(format));
  if (is_beyond)
    return static_cast<uint8_t>(
        sign | (format.beyond == B::kLargest ? largest : largest + 1));
  return static_cast<uint8_t>(bits == 0 && !has_minus_zero ? 0 : sign | bits);
}

double narrow_float_value(const NarrowFloat& format, uint8_t bits) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  if (!format.has_sign)
    return bits == kNanWithoutSign
               ? kNan
               : std::ldexp(1, bits + format.smallest_exponent - 1);
  const double sign = (bits & sign_bit(format)) != 0 ? -1 : 1;
  const int size = bits & (sign_bit(format) - 1);
  const int beyond = size_bits(format, format.largest) + 1;
  if (format.beyond == B::kNanForMinusZero && size == 0 && sign < 0)
    return kNan;
  if (size >= beyond) {
    return format.beyond == B::kInfinity && size == beyond
               ? sign * std::numeric_limits<double>::infinity()
               : kNan;
  }
  const int exponent = std::max(size >> format.mantissa_bits, 1);
  const int leading = size >> format.mantissa_bits > 0 ? 1 : 0;
  const int fraction = size & ((1 << format.mantissa_bits) - 1);
  return sign * std::ldexp(fraction + (leading << format.mantissa_bits),
                           exponent - 1 + format.smallest_exponent -
                               format.mantissa_bits);
}

}  // namespace reprise
