#include "runtime/cpu/matrix_product.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include <algorithm>
#include <cstring>
#include <limits>
#include <oneapi/dnnl/dnnl.hpp>

#include "runtime/cpu/lapack.h"
#include "runtime/cpu/wide_vectors.h"
#include "runtime/kernels/element_ops.h"

namespace reprise {
namespace {

template <typename Call>
void with_sum(SumType type, Call&& call) {
  switch (type) {
    case SumType::kF32:
      return call(float{});
    case SumType::kF64:
      return call(double{});
    case SumType::kInteger32:
      return call(int32_t{});
    case SumType::kInteger:
      return call(rk_s64{});
  }
}

#ifdef __x86_64__
constexpr int64_t kHalves = 8;  ///< That one instruction converts.

REPRISE_WITH_F16C void load_by_eight(const uint16_t* from, float* to) {
  _mm256_storeu_ps(
      to,
      _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
}
REPRISE_WITH_F16C void store_by_eight(const float* from, uint16_t* to) {
  _mm_storeu_si128(
      reinterpret_cast<__m128i*>(to),
      _mm256_cvtps_ph(_mm256_loadu_ps(from), _MM_FROUND_TO_NEAREST_INT));
}

/// All of `from` by `convert` of eight, what is left over by way of a copy.
template <typename From, typename To>
[[gnu::always_inline]] inline void convert_by_eight(const From* from,
                                                    int64_t count, To* to,
                                                    void (*convert)(const From*,
                                                                    To*)) {
  int64_t i = 0;
  for (; i + kHalves <= count; i += kHalves) convert(from + i, to + i);
  if (i == count) return;
  From rest[kHalves] = {};
  To converted[kHalves];
  std::copy(from + i, from + count, rest);
  convert(rest, converted);
  std::copy_n(converted, count - i, to + i);
}
REPRISE_WITH_F16C void load_all_by_eight(const uint16_t* from, int64_t count,
                                         float* to) {
  convert_by_eight(from, count, to, load_by_eight);
}
REPRISE_WITH_F16C void store_all_by_eight(const float* from, int64_t count,
                                          uint16_t* to) {
  convert_by_eight(from, count, to, store_by_eight);
}
#endif

void load_halves(const uint16_t* from, int64_t count, float* to) {
#ifdef __x86_64__
  if (has_avx2()) return load_all_by_eight(from, count, to);
#endif
  for (int64_t i = 0; i < count; ++i) to[i] = rk_load_f16(from[i]);
}
void store_halves(const float* from, int64_t count, uint16_t* to) {
#ifdef __x86_64__
  if (has_avx2()) return store_all_by_eight(from, count, to);
#endif
  for (int64_t i = 0; i < count; ++i) to[i] = rk_store_f16(from[i]);
}

/// Rows and columns of the result that are held in registers: in vectors of 32
/// bytes, two a row.
constexpr int64_t kTileRows = 4;
template <typename T>
constexpr int64_t kTileColumns = 64 / sizeof(T);

/// A tile of out += a b, of at most kTileRows rows and as many columns as
/// registers hold; each element's sum in the order of the depth.
template <typename T>
struct Tile {
  const T *left, *right;
  T* out;
  int64_t by_row, by_depth, right_row, leading;
  int64_t rows, depth;
};

template <int64_t kRows, typename T>
[[gnu::always_inline]] inline void add_tile(const Tile<T>& tile) {
  typedef T Vector __attribute__((vector_size(32)));
  constexpr auto kLanes = static_cast<int64_t>(32 / sizeof(T));
  Vector sums[kRows][2];
  for (int64_t r = 0; r < kRows; ++r)
    std::memcpy(&sums[r], tile.out + r * tile.leading, sizeof sums[r]);
  for (int64_t d = 0; d < tile.depth; ++d) {
    Vector right[2];
    std::memcpy(&right, tile.right + d * tile.right_row, sizeof right);
    for (int64_t r = 0; r < kRows; ++r) {
      const Vector factor =
          Vector{} + tile.left[r * tile.by_row + d * tile.by_depth];
      sums[r][0] += factor * right[0];
      sums[r][1] += factor * right[1];
    }
  }
  static_assert(2 * kLanes == kTileColumns<T>);
  for (int64_t r = 0; r < kRows; ++r)
    std::memcpy(tile.out + r * tile.leading, &sums[r], sizeof sums[r]);
}

template <typename T>
[[gnu::always_inline]] inline void add_rows_of_tile(const Tile<T>& tile) {
  if (tile.rows == kTileRows) return add_tile<kTileRows>(tile);
  for (int64_t r = 0; r < tile.rows; ++r) {
    Tile<T> row = tile;
    row.left += r * tile.by_row;
    row.out += r * tile.leading;
    add_tile<1>(row);
  }
}

REPRISE_WITH_AVX2 void add_by_avx2(const Tile<float>& tile) {
  add_rows_of_tile(tile);
}
REPRISE_WITH_AVX2 void add_by_avx2(const Tile<double>& tile) {
  add_rows_of_tile(tile);
}
/// Integers wrap: their low bits are those of any narrower sum.
REPRISE_WITH_AVX2 void add_by_avx2(const Tile<uint32_t>& tile) {
  add_rows_of_tile(tile);
}
REPRISE_WITH_AVX2 void add_by_avx2(const Tile<uint64_t>& tile) {
  add_rows_of_tile(tile);
}
template <typename T>
void add_anywhere(const Tile<T>& tile) {
  add_rows_of_tile(tile);
}

template <typename T>
void multiply_plainly(int64_t m, int64_t n, int64_t k, const SumMatrix& a,
                      const SumMatrix& b, T* out, int64_t leading) {
  static const bool is_wide = has_avx2();
  const auto* left = reinterpret_cast<const T*>(a.data);
  const auto* right = reinterpret_cast<const T*>(b.data);
  const int64_t by_row = a.transposed ? 1 : a.leading,
                by_depth = a.transposed ? a.leading : 1;
  const int64_t right_row = b.transposed ? 1 : b.leading,
                right_column = b.transposed ? b.leading : 1;
  const int64_t tiled =
      b.transposed ? 0 : n / kTileColumns<T> * kTileColumns<T>;
  for (int64_t j = 0; j < tiled; j += kTileColumns<T>) {
    for (int64_t i = 0; i < m; i += kTileRows) {
      const Tile<T> tile{left + i * by_row,
                         right + j,
                         out + i * leading + j,
                         by_row,
                         by_depth,
                         right_row,
                         leading,
                         std::min(kTileRows, m - i),
                         k};
      is_wide ? add_by_avx2(tile) : add_anywhere(tile);
    }
  }
  for (int64_t i = 0; i < m; ++i) {
    T* row = out + i * leading;
    for (int64_t d = 0; d < k; ++d) {
      const T factor = left[i * by_row + d * by_depth];
      const T* line = right + d * right_row;
      for (int64_t j = tiled; j < n; ++j)
        row[j] += factor * line[j * right_column];
    }
  }
}

}  // namespace

SumType sum_type(PrimitiveType a, PrimitiveType b, PrimitiveType result) {
  const auto any = [&](auto holds) {
    return holds(a) || holds(b) || holds(result);
  };
  if (any([](PrimitiveType t) { return t == PrimitiveType::kF64; }))
    return SumType::kF64;
  const bool floats = any([](PrimitiveType t) {
    return t == PrimitiveType::kF32 || t == PrimitiveType::kBF16 ||
           t == PrimitiveType::kF16;
  });
  if (floats) return SumType::kF32;
  return primitive_type_bits(result) <= 32 ? SumType::kInteger32
                                           : SumType::kInteger;
}

void load_sums(SumType type, PrimitiveType from_type, const std::byte* from,
               int64_t stride, int64_t count, std::byte* to) {
  if (type == SumType::kF32 && from_type == PrimitiveType::kF32 &&
      stride == 1) {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
    return;
  }
  if (type == SumType::kF32 && from_type == PrimitiveType::kF16 &&
      stride == 1 && has_avx2()) {
    return load_halves(reinterpret_cast<const uint16_t*>(from), count,
                       reinterpret_cast<float*>(to));
  }
  const int64_t step = stride * memory_bytes(from_type);
  with_sum(type, [&](auto sum) {
    using S = decltype(sum);
    auto* sums = reinterpret_cast<S*>(to);
    with_type(from_type, [&](auto zero) {
      using T = decltype(zero);
      for (int64_t i = 0; i < count; ++i) {
        sums[i] = convert<S>(from_memory<T>(from_type, from + i * step));
      }
    });
  });
}

void store_sums(SumType type, const std::byte* from, int64_t count,
                PrimitiveType to_type, std::byte* to, int64_t stride) {
  if (type == SumType::kF32 && to_type == PrimitiveType::kF16 && stride == 1 &&
      has_avx2()) {
    return store_halves(reinterpret_cast<const float*>(from), count,
                        reinterpret_cast<uint16_t*>(to));
  }
  const int64_t step = stride * memory_bytes(to_type);
  with_sum(type, [&](auto sum) {
    using S = decltype(sum);
    const auto* sums = reinterpret_cast<const S*>(from);
    with_type(to_type, [&](auto zero) {
      using T = decltype(zero);
      for (int64_t i = 0; i < count; ++i)
        to_memory(to_type, convert<T>(sums[i]), to + i * step);
    });
  });
}

bool is_library_product(SumType type, int64_t m, int64_t n, int64_t k) {
  // Below, a call costs more than the product.
  constexpr double kLeast = 4096;
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  const bool is_float = type == SumType::kF32 || type == SumType::kF64;
  if (!is_float ||
      static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) <
          kLeast)
    return false;
  if (type == SumType::kF32) return true;
  if (std::max({m, n, k}) > kMost) return false;
  static const bool is_there = lapack::load().has_value();
  return is_there;
}

bool multiply(SumType type, int64_t m, int64_t n, int64_t k, const SumMatrix& a,
              const SumMatrix& b, std::byte* out, int64_t out_leading,
              bool adds) {
  const bool by_library = is_library_product(type, m, n, k);
  if (by_library && type == SumType::kF32) {
    return dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', m, n,
                      k, 1, reinterpret_cast<const float*>(a.data), a.leading,
                      reinterpret_cast<const float*>(b.data), b.leading,
                      adds ? 1 : 0, reinterpret_cast<float*>(out),
                      out_leading) == dnnl_success;
  }
  if (by_library) {
    const auto factor = [](const SumMatrix& matrix) {
      return lapack::Factor{reinterpret_cast<const double*>(matrix.data),
                            static_cast<int32_t>(matrix.leading),
                            matrix.transposed};
    };
    lapack::gemm(static_cast<int32_t>(m), static_cast<int32_t>(n),
                 static_cast<int32_t>(k), factor(a), factor(b),
                 reinterpret_cast<double*>(out),
                 static_cast<int32_t>(out_leading), adds);
    return true;
  }
  const auto bytes = static_cast<int64_t>(sum_bytes(type));
  for (int64_t i = 0; i < m && !adds; ++i)
    std::memset(out + i * out_leading * bytes, 0,
                static_cast<size_t>(n * bytes));
  const auto plainly = [&](auto* sums) {
    multiply_plainly(m, n, k, a, b, sums, out_leading);
    return true;
  };
  switch (type) {
    case SumType::kF32:
      return plainly(reinterpret_cast<float*>(out));
    case SumType::kF64:
      return plainly(reinterpret_cast<double*>(out));
    case SumType::kInteger32:
      return plainly(reinterpret_cast<uint32_t*>(out));
    case SumType::kInteger:
      return plainly(reinterpret_cast<uint64_t*>(out));
  }
  return false;
}

}  // namespace reprise
