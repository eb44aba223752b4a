#include "runtime/cpu/widened_dot.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace reprise {
namespace {

float widened(const std::byte* from) {
  uint16_t bits = 0;
  std::memcpy(&bits, from, sizeof bits);
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

void store_rounded(float value, std::byte* to) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded =
      std::isnan(value) ? bits | 0x400000 : bits + 0x7fff + (bits >> 16 & 1);
  const auto half = static_cast<uint16_t>(rounded >> 16);
  std::memcpy(to, &half, sizeof half);
}

MatrixView row_major(const MatrixView& view) {
  MatrixView dense{.location = view.location,
                   .dimensions = view.dimensions,
                   .strides = view.strides};
  int64_t stride = 1;
  for (size_t d = dense.strides.size(); d-- > 0;) {
    dense.strides[d] = stride;
    stride *= dense.dimensions[d];
  }
  return dense;
}

/// Calls `visit` with the place of each element, row-major.
template <typename Visit>
void each_place(const MatrixView& view, size_t d, int64_t at,
                const Visit& visit) {
  const int64_t extent = view.dimensions[d], stride = view.strides[d];
  for (int64_t i = 0; i < extent; ++i, at += stride) {
    if (d + 1 == view.dimensions.size()) {
      visit(at);
    } else {
      each_place(view, d + 1, at, visit);
    }
  }
}

constexpr size_t kBytes = 2;

}  // namespace

WidenedDot::Matrix WidenedDot::matrix(const MatrixView& view,
                                      const std::byte* data) {
  int64_t count = 1;
  for (const int64_t extent : view.dimensions) count *= extent;
  return {.view = view,
          .data = const_cast<std::byte*>(data),
          .values = std::vector<float>(static_cast<size_t>(count))};
}

WidenedDot::WidenedDot(const DotSpec& spec, const std::byte* lhs,
                       const std::byte* rhs, std::byte* out)
    : rounds_(spec.result_type == PrimitiveType::kBF16),
      lhs_(matrix(spec.lhs, lhs)),
      rhs_(matrix(spec.rhs, rhs)),
      out_(matrix(spec.out, out)) {}

DotSpec WidenedDot::spec() const {
  return {.type = PrimitiveType::kF32,
          .lhs = row_major(lhs_.view),
          .rhs = row_major(rhs_.view),
          .out = row_major(out_.view)};
}

void WidenedDot::load() {
  for (Matrix* matrix : {&lhs_, &rhs_}) {
    float* to = matrix->values.data();
    each_place(matrix->view, 0, 0, [&](int64_t at) {
      *to++ = widened(matrix->data + static_cast<size_t>(at) * kBytes);
    });
  }
}

void WidenedDot::store() {
  const float* from = out_.values.data();
  each_place(out_.view, 0, 0, [&](int64_t at) {
    const auto place = static_cast<size_t>(at);
    if (rounds_) {
      store_rounded(*from++, out_.data + place * kBytes);
    } else {
      std::memcpy(out_.data + place * sizeof *from, from, sizeof *from);
      ++from;
    }
  });
}

}  // namespace reprise
