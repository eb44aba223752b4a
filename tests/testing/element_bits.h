// Bits of elements that tests hold as doubles, by arithmetic alone.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "data/hlo/module.h"

namespace reprise {

struct FloatLayout {
  int exponent = 8, mantissa = 23;
};

/// Bits of exponent and mantissa; {0, 0} of integers.
inline FloatLayout float_layout(PrimitiveType type) {
  switch (type) {
    case PrimitiveType::kF64:
      return {11, 52};
    case PrimitiveType::kF32:
      return {8, 23};
    case PrimitiveType::kF16:
      return {5, 10};
    case PrimitiveType::kBF16:
      return {8, 7};
    default:
      return {0, 0};
  }
}

/// The nearest float of a layout, ties to even; beyond the largest, infinity,
/// and below the least normal one, zero where `flushes`.
inline double round_to_layout(double x, FloatLayout layout, bool flushes) {
  if (x == 0 || !std::isfinite(x)) return x;
  const int bias = (1 << (layout.exponent - 1)) - 1;
  const int least = 1 - bias;
  int exponent = std::ilogb(x);
  if (!flushes && exponent < least) exponent = least;
  const double unit = std::ldexp(1.0, exponent - layout.mantissa);
  const double rounded = std::nearbyint(x / unit) * unit;
  if (std::fabs(rounded) >= std::ldexp(1.0, bias + 1))
    return std::copysign(HUGE_VAL, x);
  if (flushes && std::ilogb(rounded) < least) return std::copysign(0.0, x);
  return rounded;
}

/// Bits of one element, zero-extended. Integers wrap.
inline uint64_t bits_of_element(PrimitiveType type, double x) {
  const FloatLayout layout = float_layout(type);
  const int width = primitive_type_bits(type);
  const uint64_t mask = width == 64 ? ~uint64_t{0} : (uint64_t{1} << width) - 1;
  if (layout.mantissa == 0) {
    const auto whole = x < 0 ? static_cast<uint64_t>(static_cast<int64_t>(x))
                             : static_cast<uint64_t>(x);
    return whole & mask;
  }
  const uint64_t wide = std::bit_cast<uint64_t>(x);
  if (type == PrimitiveType::kF64) return wide;
  const uint64_t sign = wide >> 63 << (width - 1);
  const uint64_t most = (uint64_t{1} << layout.exponent) - 1;
  if (std::isnan(x))
    return sign | most << layout.mantissa |
           uint64_t{1} << (layout.mantissa - 1);
  x = round_to_layout(x, layout, false);
  if (std::isinf(x)) return sign | most << layout.mantissa;
  const int bias = (1 << (layout.exponent - 1)) - 1;
  const double size = std::fabs(x);
  if (size < std::ldexp(1.0, 1 - bias)) {
    return sign |
           static_cast<uint64_t>(std::ldexp(size, bias - 1 + layout.mantissa));
  }
  const int exponent = std::ilogb(size);
  const auto fraction = static_cast<uint64_t>(
      std::ldexp(std::ldexp(size, -exponent) - 1, layout.mantissa));
  return sign | static_cast<uint64_t>(exponent + bias) << layout.mantissa |
         fraction;
}

/// The element of these bits.
inline double element_of_bits(PrimitiveType type, uint64_t bits) {
  const FloatLayout layout = float_layout(type);
  const int width = primitive_type_bits(type);
  if (layout.mantissa == 0) {
    const bool is_signed =
        type == PrimitiveType::kS8 || type == PrimitiveType::kS16 ||
        type == PrimitiveType::kS32 || type == PrimitiveType::kS64;
    if (!is_signed) return static_cast<double>(bits);
    const int unused = 64 - width;
    return static_cast<double>(static_cast<int64_t>(bits << unused) >> unused);
  }
  if (type == PrimitiveType::kF64) return std::bit_cast<double>(bits);
  const double sign = bits >> (width - 1) != 0 ? -1 : 1;
  const uint64_t most = (uint64_t{1} << layout.exponent) - 1;
  const uint64_t exponent = bits >> layout.mantissa & most;
  const auto fraction =
      static_cast<double>(bits & ((uint64_t{1} << layout.mantissa) - 1));
  const int bias = (1 << (layout.exponent - 1)) - 1;
  if (exponent == most) return fraction == 0 ? sign * HUGE_VAL : std::nan("");
  if (exponent == 0)
    return sign * std::ldexp(fraction, 1 - bias - layout.mantissa);
  return sign * std::ldexp(1 + std::ldexp(fraction, -layout.mantissa),
                           static_cast<int>(exponent) - bias);
}

}  // namespace reprise
