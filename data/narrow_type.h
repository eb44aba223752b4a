// Floats of 8 bits and integers of 4: what they are held in while a step
// computes with them, and how they lie in memory and in files, one element a
// byte.
#pragma once

#include <cstddef>
#include <cstdint>

#include "data/primitive_type.h"

namespace reprise {

/// Of a float of 8 bits, its first the sign. Beyond the largest number stands
/// infinity, where it has any, then NaN.
struct NarrowFloat {
  int mantissa_bits = 0;
  int smallest_exponent = 0;  ///< Of normal numbers.
  double largest = 0;
  bool has_infinity = false;
};

/// What a program computes with although no kernel has it.
struct NarrowType {
  PrimitiveType type;
  /// Holds every value: bf16 of floats (none has more than 3 bits of
  /// mantissa), s8 and u8 of integers.
  PrimitiveType holding;
  /// As parameters and results of a program have it: u8 with a float's bits, an
  /// integer as what holds it.
  PrimitiveType stored;
  /// In files that name types: its own, or that of an integer's bytes.
  PrimitiveType filed;
  NarrowFloat format;  ///< Of floats.
};

/// f8e4m3fn, f8e5m2, s4 and u4; null for all others.
const NarrowType* narrow_type(PrimitiveType type);

/// Their columns; the type itself of all others.
PrimitiveType holding_type(PrimitiveType type);
PrimitiveType stored_type(PrimitiveType type);
PrimitiveType filed_type(PrimitiveType type);

/// Bytes of one element as parameters and results have it.
size_t stored_bytes(PrimitiveType type);

/// Nearest, ties to even; beyond the largest NaN, or infinity where the format
/// has it.
uint8_t narrow_float_bits(const NarrowFloat& format, double value);
double narrow_float_value(const NarrowFloat& format, uint8_t bits);

}  // namespace reprise
