// A dense copy keeps the order of its matrix's dimensions in memory, so that a
// matrix without gaps, transposed or not, is widened in one straight run.
#include "runtime/cpu/widened_dot.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

#include "runtime/cpu/wide_vectors.h"

namespace reprise {
namespace {

float widened(uint16_t half) {
  return std::bit_cast<float>(static_cast<uint32_t>(half) << 16);
}

uint16_t rounded(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const bool is_nan = (bits & 0x7fffffff) > 0x7f800000;
  const uint32_t nearest =
      is_nan ? bits | 0x400000 : bits + 0x7fff + (bits >> 16 & 1);
  return static_cast<uint16_t>(nearest >> 16);
}

// In vectors of 8 elements where the machine has them; the same bits.
REPRISE_WITH_AVX2 void widen_by_eight(const uint16_t* from, float* to,
                                      int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = widened(from[i]);
}
/// `stride`: of `from`, in elements.
void widen(const uint16_t* from, int64_t stride, float* to, int64_t count) {
  if (stride == 1 && has_avx2()) return widen_by_eight(from, to, count);
  for (int64_t i = 0; i < count; ++i) to[i] = widened(from[i * stride]);
}

REPRISE_WITH_AVX2 void round_by_eight(const float* from, uint16_t* to,
                                      int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = rounded(from[i]);
}
/// `stride`: of `to`, in elements.
void round(const float* from, uint16_t* to, int64_t stride, int64_t count) {
  if (stride == 1 && has_avx2()) return round_by_eight(from, to, count);
  for (int64_t i = 0; i < count; ++i) to[i * stride] = rounded(from[i]);
}

/// Calls `visit(place, dense place, elements, stride)` with runs along the
/// innermost dimension; of a matrix without gaps, with all of it as one.
template <typename Visit>
void each_run(const MatrixView& view, const MatrixView& dense,
              const std::vector<size_t>& order, const Visit& visit) {
  const int64_t count =
      std::accumulate(view.dimensions.begin(), view.dimensions.end(),
                      int64_t{1}, std::multiplies<>());
  if (view.strides == dense.strides) {
    visit(int64_t{0}, int64_t{0}, count, int64_t{1});
    return;
  }
  const auto walk = [&](const auto& self, size_t d, int64_t from,
                        int64_t to) -> void {
    const size_t dimension = order[d];
    const int64_t extent = view.dimensions[dimension];
    if (d + 1 == order.size()) {
      visit(from, to, extent, view.strides[dimension]);
      return;
    }
    for (int64_t i = 0; i < extent; ++i) {
      self(self, d + 1, from + i * view.strides[dimension],
           to + i * dense.strides[dimension]);
    }
  };
  walk(walk, 0, 0, 0);
}

}  // namespace

WidenedDot::Matrix WidenedDot::matrix(
    const MatrixView& view, std::byte* data,
    std::shared_ptr<std::vector<float>>& scratch) {
  Matrix made;
  made.view = made.dense = view;
  made.data = data;
  made.order.resize(view.dimensions.size());
  std::iota(made.order.begin(), made.order.end(), size_t{0});
  std::stable_sort(
      made.order.begin(), made.order.end(),
      [&](size_t a, size_t b) { return view.strides[a] > view.strides[b]; });
  int64_t stride = 1;
  for (size_t i = made.order.size(); i-- > 0;) {
    made.dense.strides[made.order[i]] = stride;
    stride *= view.dimensions[made.order[i]];
  }
  const auto count = static_cast<size_t>(stride);
  if (!scratch || scratch->size() < count)
    scratch = std::make_shared<std::vector<float>>(count);
  made.values = scratch;
  made.product = reinterpret_cast<std::byte*>(scratch->data());
  return made;
}

WidenedDot::WidenedDot(const DotSpec& spec, const std::byte* lhs,
                       const std::byte* rhs, std::byte* out, Scratch& scratch) {
  matrices_[0] = matrix(spec.lhs, const_cast<std::byte*>(lhs), scratch[0]);
  matrices_[1] = matrix(spec.rhs, const_cast<std::byte*>(rhs), scratch[1]);
  if (spec.result_type == PrimitiveType::kBF16) {
    matrices_[2] = matrix(spec.out, out, scratch[2]);
  } else {
    matrices_[2].dense = spec.out;
    matrices_[2].product = out;
  }
}

DotSpec WidenedDot::spec() const {
  return {.type = PrimitiveType::kF32,
          .lhs = matrices_[0].dense,
          .rhs = matrices_[1].dense,
          .out = matrices_[2].dense};
}

void WidenedDot::load() const {
  for (size_t m = 0; m < 2; ++m) {
    const Matrix& matrix = matrices_[m];
    const auto* data = reinterpret_cast<const uint16_t*>(matrix.data);
    float* values = matrix.values->data();
    each_run(matrix.view, matrix.dense, matrix.order,
             [&](int64_t from, int64_t to, int64_t count, int64_t stride) {
               widen(data + from, stride, values + to, count);
             });
  }
}

void WidenedDot::store() const {
  const Matrix& matrix = matrices_[2];
  if (!matrix.values) return;
  auto* data = reinterpret_cast<uint16_t*>(matrix.data);
  const float* values = matrix.values->data();
  each_run(matrix.view, matrix.dense, matrix.order,
           [&](int64_t to, int64_t from, int64_t count, int64_t stride) {
             round(values + from, data + to, stride, count);
           });
}

}  // namespace reprise
