// Floats of 8 bits and fewer and integers of 4 and 2: what they are held in
// while a step computes with them, and how they lie in memory and in files, one
// element a byte.
#pragma once

#include <cstddef>
#include <cstdint>

#include "data/primitive_type.h"

namespace reprise {

/// What stands for numbers that are too large.
enum class BeyondLargest : uint8_t {
  kInfinity,  ///< Then NaN, as in IEEE 754.
  kNan,
  kNanForMinusZero,  ///< NaN, whose bits are those of -0; zero has no sign.
  kLargest           ///< The largest number itself: there is no NaN.
};

/// A float of at most 8 bits, its first the sign.
struct NarrowFloat {
  int mantissa_bits = 0;
  int smallest_exponent = 0;  ///< Of normal numbers.
  double largest = 0;
  BeyondLargest beyond = BeyondLargest::kNan;
  int bits = 8;
  /// Without, it has powers of two alone, from half of the smallest normal
  /// number on, and NaN, which zero and what is negative become.
  bool has_sign = true;
};

/// What a program computes with although no kernel has it.
struct NarrowType {
  PrimitiveType type;
  /// Holds every value: bf16 of floats (none has more than 4 bits of
  /// mantissa), s8 and u8 of integers.
  PrimitiveType holding;
  /// As parameters and results of a program have it: u8 with a float's bits, an
  /// integer as what holds it.
  PrimitiveType stored;
  /// In files that name types: its own of f8e4m3fn and f8e5m2, that of its
  /// bytes of all others.
  PrimitiveType filed;
  NarrowFloat format;  ///< Of floats.
};

/// All floats below 16 bits, s4, u4, s2 and u2; null for all others.
const NarrowType* narrow_type(PrimitiveType type);

/// Their columns; the type itself of all others.
PrimitiveType holding_type(PrimitiveType type);
PrimitiveType stored_type(PrimitiveType type);
PrimitiveType filed_type(PrimitiveType type);

/// Bytes of one element as parameters and results have it.
size_t stored_bytes(PrimitiveType type);

/// Nearest, ties to even; without a sign ties upwards.
uint8_t narrow_float_bits(const NarrowFloat& format, double value);
double narrow_float_value(const NarrowFloat& format, uint8_t bits);

}  // namespace reprise
