#include "data/narrow_type.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace reprise {
namespace {

using T = PrimitiveType;

constexpr std::array<NarrowType, 4> kNarrowTypes = {{
    {T::kF8E4M3FN, T::kBF16, T::kU8, T::kF8E4M3FN, {3, -6, 448, false}},
    {T::kF8E5M2, T::kBF16, T::kU8, T::kF8E5M2, {2, -14, 57344, true}},
    {T::kS4, T::kS8, T::kS8, T::kS8, {}},
    {T::kU4, T::kU8, T::kU8, T::kU8, {}},
}};

constexpr int kSign = 0x80, kSize = 0x7f;

/// Of numbers that are not negative.
int size_bits(const NarrowFloat& format, double size) {
  const int exponent = std::max(std::ilogb(size), format.smallest_exponent);
  const auto mantissa = static_cast<int>(
      std::nearbyint(std::ldexp(size, format.mantissa_bits - exponent)));
  // The leading bit of a normal mantissa carries into the exponent.
  return ((exponent - format.smallest_exponent) << format.mantissa_bits) +
         mantissa;
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
  const int sign = std::signbit(value) ? kSign : 0;
  const int beyond = size_bits(format, format.largest) + 1;
  const double size = std::abs(value);
  int bits = 0;
  if (std::isnan(value)) {
    bits =
        format.has_infinity ? beyond | 1 << (format.mantissa_bits - 1) : beyond;
  } else if (std::isinf(value)) {
    bits = beyond;
  } else if (size != 0) {
    // Twice the largest is beyond it and still has a size.
    bits =
        std::min(size_bits(format, std::min(size, 2 * format.largest)), beyond);
  }
  return static_cast<uint8_t>(sign | bits);
}

double narrow_float_value(const NarrowFloat& format, uint8_t bits) {
  const double sign = (bits & kSign) != 0 ? -1 : 1;
  const int size = bits & kSize, beyond = size_bits(format, format.largest) + 1;
  if (size >= beyond) {
    return format.has_infinity && size == beyond
               ? sign * std::numeric_limits<double>::infinity()
               : std::numeric_limits<double>::quiet_NaN();
  }
  const int exponent = std::max(size >> format.mantissa_bits, 1);
  const int leading = size >> format.mantissa_bits > 0 ? 1 : 0;
  const int fraction = size & ((1 << format.mantissa_bits) - 1);
  return sign * std::ldexp(fraction + (leading << format.mantissa_bits),
                           exponent - 1 + format.smallest_exponent -
                               format.mantissa_bits);
}

}  // namespace reprise
