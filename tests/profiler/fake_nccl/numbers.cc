#include "tests/profiler/fake_nccl/numbers.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace fake_nccl {
namespace {

/// A 16-bit float with this many bits of mantissa, as its bits.
template <int Mantissa>
struct Short {
  uint16_t bits;
};
using Half = Short<10>;
using Brain = Short<7>;

float widened(Brain value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);
}

Brain narrowed(float value, Brain) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return {static_cast<uint16_t>(bits >> 16 | 0x40)};
  const uint32_t even = bits + 0x7fff + (bits >> 16 & 1);
  return {static_cast<uint16_t>(even >> 16)};
}

float widened(Half value) {
  const int exponent = value.bits >> 10 & 31;
  const int mantissa = value.bits & 1023;
  const float sign = value.bits >> 15 ? -1.0F : 1.0F;
  if (exponent == 31) return sign * (mantissa ? NAN : INFINITY);
  if (exponent == 0)
    return sign * std::ldexp(static_cast<float>(mantissa), -24);
  return sign * std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25);
}

// Rounds to the nearest multiple of the last bit's weight, ties to even, as
// nearbyint does.
Half narrowed(float value, Half) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const float size = std::fabs(value);
  if (std::isnan(value)) return {static_cast<uint16_t>(sign | 0x7e00)};
  if (size == 0) return {sign};
  if (size >= 65520) return {static_cast<uint16_t>(sign | 0x7c00)};
  int exponent = 0;
  std::frexp(size, &exponent);  // size = m · 2^exponent, m in [0.5, 1).
  const int last = std::max(exponent - 11, -24);
  const auto units = static_cast<int>(std::nearbyint(std::ldexp(size, -last)));
  if (last == -24) return {static_cast<uint16_t>(sign | units)};
  return {static_cast<uint16_t>(sign | (((last + 24) << 10) + units))};
}

template <typename T>
T apply(int operation, T a, T b) {
  switch (operation) {
    case 1:
      return static_cast<T>(a * b);
    case 2:
      return std::max(a, b);
    case 3:
      return std::min(a, b);
    default:
      return static_cast<T>(a + b);
  }
}
template <int Mantissa>
Short<Mantissa> apply(int operation, Short<Mantissa> a, Short<Mantissa> b) {
  return narrowed(apply(operation, widened(a), widened(b)), a);
}

template <typename T>
T divided(T a, int ranks) {
  return static_cast<T>(a / static_cast<T>(ranks));
}
template <int Mantissa>
Short<Mantissa> divided(Short<Mantissa> a, int ranks) {
  return narrowed(widened(a) / static_cast<float>(ranks), a);
}

/// Calls `run(T{})` with the element type.
template <typename Run>
void with_type(int data_type, Run&& run) {
  switch (data_type) {
    case 0:
      return run(int8_t{});
    case 1:
      return run(uint8_t{});
    case 2:
      return run(int32_t{});
    case 3:
      return run(uint32_t{});
    case 4:
      return run(int64_t{});
    case 5:
      return run(uint64_t{});
    case 6:
      return run(Half{});
    case 7:
      return run(float{});
    case 8:
      return run(double{});
    case 9:
      return run(Brain{});
    default:
      return;
  }
}

}  // namespace

size_t element_bytes(int data_type) {
  size_t bytes = 0;
  with_type(data_type, [&](auto one) { bytes = sizeof one; });
  return bytes;
}

const char* data_type_word(int data_type) {
  // NCCL 2.28 has no word for ncclUint8.
  static constexpr const char* kWords[] = {
      "ncclInt8",    "Unknown",     "ncclInt32",   "ncclUint32",
      "ncclInt64",   "ncclUint64",  "ncclFloat16", "ncclFloat32",
      "ncclFloat64", "ncclBfloat16"};
  return data_type >= 0 && data_type < 10 ? kWords[data_type] : "Unknown";
}

void reduce(int data_type, int operation, void* into, const void* from,
            size_t count) {
  with_type(data_type, [&](auto one) {
    using T = decltype(one);
    auto* a = static_cast<T*>(into);
    const auto* b = static_cast<const T*>(from);
    for (size_t i = 0; i < count; ++i) a[i] = apply(operation, a[i], b[i]);
  });
}

void finish(int data_type, int operation, void* data, size_t count, int ranks) {
  if (operation != 4) return;
  with_type(data_type, [&](auto one) {
    auto* a = static_cast<decltype(one)*>(data);
    for (size_t i = 0; i < count; ++i) a[i] = divided(a[i], ranks);
  });
}

}  // namespace fake_nccl
