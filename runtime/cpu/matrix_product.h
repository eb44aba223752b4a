// Dense matrix products in the types in which dots and convolutions add up, and
// elements moved to and from them. Where they are not small, products of f32
// are oneDNN's, and those of f64 OpenBLAS's.
#pragma once

#include <cstddef>
#include <cstdint>

#include "data/primitive_type.h"

namespace reprise {

/// What sums are held in: f32 for floats up to it (16-bit ones are widened),
/// f64, and integers of 32 or 64 bits, as the result has, whose low bits are
/// those of any narrower sum.
enum class SumType : uint8_t { kF32, kF64, kInteger32, kInteger };

/// Of operands `a` and `b` and a result.
SumType sum_type(PrimitiveType a, PrimitiveType b, PrimitiveType result);
constexpr size_t sum_bytes(SumType type) {
  return type == SumType::kF32 || type == SumType::kInteger32 ? 4 : 8;
}

/// `count` elements of memory, `stride` elements apart, to adjacent sums.
void load_sums(SumType type, PrimitiveType from_type, const std::byte* from,
               int64_t stride, int64_t count, std::byte* to);
/// And back, each rounded to its type; integers are cut off.
void store_sums(SumType type, const std::byte* from, int64_t count,
                PrimitiveType to_type, std::byte* to, int64_t stride);

/// A row-major matrix of sums, or its transpose; `leading`: elements from one
/// row in memory to the next.
struct SumMatrix {
  const std::byte* data = nullptr;
  int64_t leading = 0;
  bool transposed = false;
};

/// Whether a library multiplies, which takes either order of its factors' rows
/// and columns; our own loops want neighbours on the right.
bool is_library_product(SumType type, int64_t m, int64_t n, int64_t k);

/// out[m, n] = (adds ? out : 0) + sum over k of a[m, k] * b[k, n], in a fixed
/// order. False when oneDNN failed.
bool multiply(SumType type, int64_t m, int64_t n, int64_t k, const SumMatrix& a,
              const SumMatrix& b, std::byte* out, int64_t out_leading,
              bool adds);

}  // namespace reprise
