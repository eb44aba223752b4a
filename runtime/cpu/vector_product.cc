// Two orders. Where rows are contiguous, four of them are read at once, each
// summed in eight lanes. Where columns are, the sums of a stretch of the result
// stay in the first-level cache, and four columns are added at once.
#include "runtime/cpu/vector_product.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include <algorithm>
#include <array>
#include <cmath>

#include "runtime/cpu/dot.h"
#include "runtime/cpu/wide_vectors.h"

namespace reprise {
namespace {

constexpr int64_t kRows = 4;   ///< Read at once.
constexpr int64_t kLanes = 8;  ///< Of a sum.
/// Columns whose sums are added as one, so that rounding grows with the root of
/// a block's and of their number.
constexpr int64_t kBlock = 128;
constexpr int64_t kStretch = 2048;  ///< Elements of the result: 8 KiB.
/// Of two vectors; the sums of longer ones need more lanes.
constexpr int64_t kLongestInner = 1024;

#ifdef __x86_64__
/// The first `count` elements.
REPRISE_WITH_FMA __m256i mask_of(int64_t count) {
  alignas(32) std::array<int32_t, kLanes> kept{};
  std::fill_n(kept.begin(), count, -1);
  return _mm256_load_si256(reinterpret_cast<const __m256i*>(kept.data()));
}

/// Sums of rows with a vector without gaps, what of a row fills no lanes in one
/// more step whose other lanes are zero. The last row is read again where four
/// are not left.
REPRISE_WITH_FMA void sum_rows(const float* matrix, int64_t stride,
                               int64_t count, const float* vector,
                               int64_t depth, float* sums) {
  const int64_t whole = depth / kLanes * kLanes;
  const __m256i mask = mask_of(depth - whole);
  const __m256 last_factor = _mm256_maskload_ps(vector + whole, mask);
  for (int64_t row = 0; row < count; row += kRows) {
    const float* first = matrix + row * stride;
    const int64_t left = std::min(kRows, count - row);
    const float *second = first + std::min<int64_t>(1, left - 1) * stride,
                *third = first + std::min<int64_t>(2, left - 1) * stride,
                *fourth = first + (left - 1) * stride;
    __m256 a = _mm256_setzero_ps(), b = a, c = a, d = a;
    for (int64_t at = 0; at < whole; at += kLanes) {
      const __m256 factor = _mm256_loadu_ps(vector + at);
      a = _mm256_fmadd_ps(_mm256_loadu_ps(first + at), factor, a);
      b = _mm256_fmadd_ps(_mm256_loadu_ps(second + at), factor, b);
      c = _mm256_fmadd_ps(_mm256_loadu_ps(third + at), factor, c);
      d = _mm256_fmadd_ps(_mm256_loadu_ps(fourth + at), factor, d);
    }
    if (whole < depth) {
      const auto rest = [&](const float* of) REPRISE_WITH_FMA {
        return _mm256_maskload_ps(of + whole, mask);
      };
      a = _mm256_fmadd_ps(rest(first), last_factor, a);
      b = _mm256_fmadd_ps(rest(second), last_factor, b);
      c = _mm256_fmadd_ps(rest(third), last_factor, c);
      d = _mm256_fmadd_ps(rest(fourth), last_factor, d);
    }
    const __m256 halves =
        _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(halves),
                                   _mm256_extractf128_ps(halves, 1));
    if (left == kRows) {
      _mm_storeu_ps(sums + row, four);
    } else {
      alignas(16) std::array<float, kRows> made;
      _mm_store_ps(made.data(), four);
      std::copy_n(made.begin(), left, sums + row);
    }
  }
}

/// sums += columns times factors, four columns at a time.
REPRISE_WITH_FMA void add_columns(const float* matrix, int64_t stride,
                                  const float* factors, int64_t depth,
                                  float* __restrict__ sums, int64_t count) {
  int64_t d = 0;
  for (; d + 4 <= depth; d += 4) {
    const float *a = matrix + d * stride, *b = a + stride, *c = b + stride,
                *e = c + stride;
    const float fa = factors[d], fb = factors[d + 1], fc = factors[d + 2],
                fe = factors[d + 3];
    for (int64_t j = 0; j < count; ++j) {
      const float first = __builtin_fmaf(fa, a[j], sums[j]);
      const float second = __builtin_fmaf(fb, b[j], first);
      const float third = __builtin_fmaf(fc, c[j], second);
      sums[j] = __builtin_fmaf(fe, e[j], third);
    }
  }
  for (; d < depth; ++d) {
    const float* a = matrix + d * stride;
    for (int64_t j = 0; j < count; ++j)
      sums[j] = __builtin_fmaf(factors[d], a[j], sums[j]);
  }
}
#else
void sum_rows(const float*, int64_t, int64_t, const float*, int64_t, float*) {}
void add_columns(const float*, int64_t, const float*, int64_t, float*,
                 int64_t) {}
#endif

bool has_loops() {
#ifdef __x86_64__
  return has_fma();
#else
  return false;
#endif
}

}  // namespace

std::optional<VectorProduct> VectorProduct::bind(const DotSpec& spec,
                                                 const DotMemory& memory) {
  const size_t n = spec.out.dimensions.size();
  const int64_t rows = spec.out.dimensions[n - 2],
                columns = spec.out.dimensions[n - 1];
  if (!has_loops() || spec.type != PrimitiveType::kF32 ||
      spec.result_type != PrimitiveType::kF32 || (rows != 1 && columns != 1))
    return std::nullopt;
  const bool is_inner = rows == 1 && columns == 1;
  if (is_inner && spec.lhs.dimensions[n - 1] > kLongestInner)
    return std::nullopt;
  VectorProduct made;
  // The matrix; of two vectors one without gaps.
  const bool is_left =
      columns == 1 && (!is_inner || spec.lhs.strides[n - 1] == 1);
  const MatrixView &matrix = is_left ? spec.lhs : spec.rhs,
                   &vector = is_left ? spec.rhs : spec.lhs;
  const size_t along_rows = is_left ? n - 2 : n - 1,
               along_depth = is_left ? n - 1 : n - 2;
  made.rows_ = matrix.dimensions[along_rows];
  made.depth_ = matrix.dimensions[along_depth];
  made.row_stride_ = matrix.strides[along_rows];
  made.depth_stride_ = matrix.strides[along_depth];
  if (made.depth_stride_ != 1 && (is_inner || made.row_stride_ != 1))
    return std::nullopt;
  made.vector_stride_ = vector.strides[is_left ? n - 2 : n - 1];
  made.result_stride_ = spec.out.strides[along_rows];
  for (size_t d = 0; d + 2 < n; ++d) {
    made.batch_.push_back({spec.out.dimensions[d], matrix.strides[d],
                           vector.strides[d], spec.out.strides[d]});
  }
  made.matrix_ =
      reinterpret_cast<const float*>(is_left ? memory.lhs : memory.rhs);
  made.vector_ =
      reinterpret_cast<const float*>(is_left ? memory.rhs : memory.lhs);
  made.result_ = reinterpret_cast<float*>(memory.out);
  return made;
}

void VectorProduct::run() const { run_batch(0, matrix_, vector_, result_); }

void VectorProduct::run_batch(size_t dimension, const float* matrix,
                              const float* vector, float* result) const {
  if (dimension == batch_.size()) return run_one(matrix, vector, result);
  const BatchDimension& along = batch_[dimension];
  for (int64_t i = 0; i < along.extent; ++i) {
    run_batch(dimension + 1, matrix + i * along.matrix,
              vector + i * along.vector, result + i * along.result);
  }
}

void VectorProduct::run_one(const float* matrix, const float* vector,
                            float* result) const {
  thread_local std::vector<float> gathered;
  if (vector_stride_ != 1) {
    gathered.resize(static_cast<size_t>(depth_));
    for (int64_t d = 0; d < depth_; ++d)
      gathered[static_cast<size_t>(d)] = vector[d * vector_stride_];
    vector = gathered.data();
  }
  std::array<float, kStretch> sums, block;
  for (int64_t row = 0; row < rows_; row += kStretch) {
    const int64_t count = std::min(kStretch, rows_ - row);
    const float* const first = matrix + row * row_stride_;
    if (depth_stride_ == 1) {
      sum_rows(first, row_stride_, count, vector, depth_, sums.data());
    } else {
      std::fill_n(sums.begin(), count, 0.0F);
      for (int64_t d = 0; d < depth_; d += kBlock) {
        std::fill_n(block.begin(), count, 0.0F);
        add_columns(first + d * depth_stride_, depth_stride_, vector + d,
                    std::min(kBlock, depth_ - d), block.data(), count);
        for (int64_t r = 0; r < count; ++r)
          sums[static_cast<size_t>(r)] += block[static_cast<size_t>(r)];
      }
    }
    for (int64_t r = 0; r < count; ++r)
      result[(row + r) * result_stride_] = sums[static_cast<size_t>(r)];
  }
}

}  // namespace reprise
