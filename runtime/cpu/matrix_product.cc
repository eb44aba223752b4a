#include "runtime/cpu/matrix_product.h"

#include <cstring>
#include <oneapi/dnnl/dnnl.hpp>

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
    case SumType::kInteger:
      return call(rk_s64{});
  }
}

template <typename T>
void multiply_plainly(int64_t m, int64_t n, int64_t k, const SumMatrix& a,
                      const SumMatrix& b, T* out, int64_t leading) {
  const auto* left = reinterpret_cast<const T*>(a.data);
  const auto* right = reinterpret_cast<const T*>(b.data);
  const int64_t by_row = a.transposed ? 1 : a.leading,
                by_depth = a.transposed ? a.leading : 1;
  const int64_t right_row = b.transposed ? 1 : b.leading,
                right_column = b.transposed ? b.leading : 1;
  for (int64_t i = 0; i < m; ++i) {
    T* row = out + i * leading;
    for (int64_t d = 0; d < k; ++d) {
      const T factor = left[i * by_row + d * by_depth];
      const T* line = right + d * right_row;
      for (int64_t j = 0; j < n; ++j)
        row[j] = rk_add(row[j], rk_multiply(factor, line[j * right_column]));
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
  return floats ? SumType::kF32 : SumType::kInteger;
}

void load_sums(SumType type, PrimitiveType from_type, const std::byte* from,
               int64_t stride, int64_t count, std::byte* to) {
  if (type == SumType::kF32 && from_type == PrimitiveType::kF32 &&
      stride == 1) {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
    return;
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

bool multiply(SumType type, int64_t m, int64_t n, int64_t k, const SumMatrix& a,
              const SumMatrix& b, std::byte* out, int64_t out_leading,
              bool adds) {
  if (type == SumType::kF32) {
    return dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', m, n,
                      k, 1, reinterpret_cast<const float*>(a.data), a.leading,
                      reinterpret_cast<const float*>(b.data), b.leading,
                      adds ? 1 : 0, reinterpret_cast<float*>(out),
                      out_leading) == dnnl_success;
  }
  with_sum(type, [&](auto zero) {
    using T = decltype(zero);
    auto* sums = reinterpret_cast<T*>(out);
    for (int64_t i = 0; i < m && !adds; ++i)
      std::memset(sums + i * out_leading, 0,
                  static_cast<size_t>(n) * sizeof(T));
    multiply_plainly(m, n, k, a, b, sums, out_leading);
  });
  return true;
}

}  // namespace reprise
