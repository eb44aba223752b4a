#include "data/element.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "data/narrow_type.h"

namespace reprise {
namespace {

/// IEEE formats that C++ has no type for.
struct FloatFormat {
  int exponent_bits, mantissa_bits;
  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  uint16_t infinity() const {
    return static_cast<uint16_t>(((1 << exponent_bits) - 1) << mantissa_bits);
  }
};
constexpr FloatFormat kHalf{5, 10}, kBrain{8, 7};

uint16_t encode(const FloatFormat& format, double value) {
  const auto sign = static_cast<uint16_t>(std::signbit(value) ? 0x8000 : 0);
  if (std::isnan(value)) {
    const int quiet = 1 << (format.mantissa_bits - 1);
    return static_cast<uint16_t>(sign | format.infinity() | quiet);
  }
  const double size = std::abs(value);
  if (size == 0) return sign;
  if (std::isinf(value)) return static_cast<uint16_t>(sign | format.infinity());
  // Numbers below the least normal exponent keep that exponent: subnormal.
  const int exponent = std::max(std::ilogb(size), 1 - format.bias());
  if (exponent > format.bias() + 1)
    return static_cast<uint16_t>(sign | format.infinity());
  const auto mantissa = static_cast<int>(
      std::nearbyint(std::ldexp(size, format.mantissa_bits - exponent)));
  // The leading bit of a normal mantissa carries into the exponent, as does a
  // mantissa that was rounded up to the next power of two.
  const int bits =
      ((exponent + format.bias() - 1) << format.mantissa_bits) + mantissa;
  return static_cast<uint16_t>(
      sign | std::min(bits, static_cast<int>(format.infinity())));
}

double decode(const FloatFormat& format, uint16_t bits) {
  const int exponent = (bits & 0x7fff) >> format.mantissa_bits;
  const int mantissa = bits & ((1 << format.mantissa_bits) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == (1 << format.exponent_bits) - 1) {
    return mantissa != 0 ? std::numeric_limits<double>::quiet_NaN()
                         : sign * std::numeric_limits<double>::infinity();
  }
  const int whole =
      exponent > 0 ? mantissa | (1 << format.mantissa_bits) : mantissa;
  const int scale =
      std::max(exponent, 1) - format.bias() - format.mantissa_bits;
  return sign * std::ldexp(whole, scale);
}

template <typename T>
void store_as(double value, std::byte* out) {
  T element = 0;
  if constexpr (std::is_floating_point_v<T>) {
    element = static_cast<T>(value);
  } else if (!std::isnan(value)) {
    constexpr auto kLeast = std::numeric_limits<T>::min();
    constexpr auto kMost = std::numeric_limits<T>::max();
    // 2^63 and 2^64 are what the largest 64-bit integers round to.
    if (value >= static_cast<double>(kMost)) {
      element = kMost;
    } else if (value <= static_cast<double>(kLeast)) {
      element = kLeast;
    } else {
      element = static_cast<T>(value);
    }
  }
  std::memcpy(out, &element, sizeof element);
}

template <typename T>
T load_as(const std::byte* bytes) {
  T element;
  std::memcpy(&element, bytes, sizeof element);
  return element;
}

}  // namespace

bool is_plain_float(PrimitiveType type) {
  return type == PrimitiveType::kF16 || type == PrimitiveType::kBF16 ||
         type == PrimitiveType::kF32 || type == PrimitiveType::kF64;
}

bool has_plain_elements(PrimitiveType type) {
  switch (type) {
    case PrimitiveType::kPred:
    case PrimitiveType::kS8:
    case PrimitiveType::kS16:
    case PrimitiveType::kS32:
    case PrimitiveType::kS64:
    case PrimitiveType::kU8:
    case PrimitiveType::kU16:
    case PrimitiveType::kU32:
    case PrimitiveType::kU64:
      return true;
    default:
      return is_plain_float(type);
  }
}

void store_element(PrimitiveType type, double value, std::byte* out) {
  switch (type) {
    case PrimitiveType::kPred:
      return store_as<uint8_t>(value != 0 ? 1 : 0, out);
    case PrimitiveType::kS2:
      return store_as<int8_t>(std::clamp(value, -2.0, 1.0), out);
    case PrimitiveType::kS4:
      return store_as<int8_t>(std::clamp(value, -8.0, 7.0), out);
    case PrimitiveType::kU2:
      return store_as<uint8_t>(std::clamp(value, 0.0, 3.0), out);
    case PrimitiveType::kU4:
      return store_as<uint8_t>(std::clamp(value, 0.0, 15.0), out);
    case PrimitiveType::kF8E4M3FN:
    case PrimitiveType::kF8E5M2:
    case PrimitiveType::kF8E4M3FNUZ:
    case PrimitiveType::kF8E5M2FNUZ:
    case PrimitiveType::kF8E4M3B11FNUZ:
    case PrimitiveType::kF8E4M3:
    case PrimitiveType::kF8E3M4:
    case PrimitiveType::kF8E8M0FNU:
    case PrimitiveType::kF4E2M1FN:
      return store_as<uint8_t>(
          narrow_float_bits(narrow_type(type)->format, value), out);
    case PrimitiveType::kS8:
      return store_as<int8_t>(value, out);
    case PrimitiveType::kS16:
      return store_as<int16_t>(value, out);
    case PrimitiveType::kS32:
      return store_as<int32_t>(value, out);
    case PrimitiveType::kS64:
      return store_as<int64_t>(value, out);
    case PrimitiveType::kU8:
      return store_as<uint8_t>(value, out);
    case PrimitiveType::kU16:
      return store_as<uint16_t>(value, out);
    case PrimitiveType::kU32:
      return store_as<uint32_t>(value, out);
    case PrimitiveType::kU64:
      return store_as<uint64_t>(value, out);
    case PrimitiveType::kF32:
      return store_as<float>(value, out);
    case PrimitiveType::kF64:
      return store_as<double>(value, out);
    default: {
      const uint16_t bits =
          encode(type == PrimitiveType::kF16 ? kHalf : kBrain, value);
      std::memcpy(out, &bits, sizeof bits);
    }
  }
}

double load_element(PrimitiveType type, const std::byte* element) {
  switch (type) {
    case PrimitiveType::kF8E4M3FN:
    case PrimitiveType::kF8E5M2:
    case PrimitiveType::kF8E4M3FNUZ:
    case PrimitiveType::kF8E5M2FNUZ:
    case PrimitiveType::kF8E4M3B11FNUZ:
    case PrimitiveType::kF8E4M3:
    case PrimitiveType::kF8E3M4:
    case PrimitiveType::kF8E8M0FNU:
    case PrimitiveType::kF4E2M1FN:
      return narrow_float_value(narrow_type(type)->format,
                                load_as<uint8_t>(element));
    case PrimitiveType::kS2:
    case PrimitiveType::kS4:
    case PrimitiveType::kS8:
      return load_as<int8_t>(element);
    case PrimitiveType::kS16:
      return load_as<int16_t>(element);
    case PrimitiveType::kS32:
      return load_as<int32_t>(element);
    case PrimitiveType::kS64:
      return static_cast<double>(load_as<int64_t>(element));
    case PrimitiveType::kPred:
    case PrimitiveType::kU2:
    case PrimitiveType::kU4:
    case PrimitiveType::kU8:
      return load_as<uint8_t>(element);
    case PrimitiveType::kU16:
      return load_as<uint16_t>(element);
    case PrimitiveType::kU32:
      return load_as<uint32_t>(element);
    case PrimitiveType::kU64:
      return static_cast<double>(load_as<uint64_t>(element));
    case PrimitiveType::kF32:
      return static_cast<double>(load_as<float>(element));
    case PrimitiveType::kF64:
      return load_as<double>(element);
    default:
      return decode(type == PrimitiveType::kF16 ? kHalf : kBrain,
                    load_as<uint16_t>(element));
  }
}

}  // namespace reprise
