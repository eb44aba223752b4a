#include "runtime/cpu/dot_epilogue_pass.h"

#include <algorithm>

#include "runtime/cpu/dot.h"

namespace reprise {
namespace {

/// One contiguous run of the result. Steps are loops of their own over a piece
/// that stays in the first cache, so that each is vectorized plainly.
struct Piece {
  float* out = nullptr;
  int64_t count = 0;

  void scale(float alpha) const {
    for (int64_t i = 0; i < count; ++i) out[i] = out[i] * alpha;
  }
  void add(const float* addend) const {
    for (int64_t i = 0; i < count; ++i) out[i] = out[i] + addend[i];
  }
  /// HLO's maximum(x, 0): NaN stays; -0, equal to 0, becomes the second.
  void rectify() const {
    for (int64_t i = 0; i < count; ++i) out[i] = out[i] <= 0 ? 0 : out[i];
  }
};

/// 8 KiB: a piece and its addends fit the first cache.
constexpr int64_t kPieceElements = 2048;

/// Starts of all runs of the innermost dimension `inner`.
std::vector<int64_t> starts_of(const MatrixView& view, size_t inner) {
  std::vector<int64_t> starts{0};
  for (size_t d = 0; d < view.dimensions.size(); ++d) {
    if (d == inner) continue;
    std::vector<int64_t> longer;
    for (const int64_t start : starts) {
      for (int64_t i = 0; i < view.dimensions[d]; ++i)
        longer.push_back(start + i * view.strides[d]);
    }
    starts = std::move(longer);
  }
  return starts;
}

}  // namespace

Result<DotEpiloguePass> DotEpiloguePass::make(const DotSpec& spec,
                                              const DotMemory& memory) {
  if (spec.result_type != PrimitiveType::kF32) {
    return fail(ErrorKind::kUnsupported, "a dot of {} with an epilogue",
                primitive_type_name(spec.result_type));
  }
  const size_t n = spec.out.dimensions.size();
  const bool is_row =
      spec.out.strides[n - 1] == 1 &&
      (spec.out.dimensions[n - 1] > 1 || spec.out.strides[n - 2] != 1);
  const size_t inner = is_row ? n - 1 : n - 2;
  if (spec.out.strides[inner] != 1 || (spec.bias && !is_row)) {
    return fail(ErrorKind::kUnsupported,
                "an epilogue over columns of stride {}",
                spec.out.strides[n - 1]);
  }
  DotEpiloguePass pass;
  pass.alpha_ = spec.alpha;
  pass.relu_ = spec.activation == DotActivation::kRelu;
  pass.out_ = reinterpret_cast<float*>(memory.out);
  if (spec.bias) pass.bias_ = reinterpret_cast<const float*>(memory.bias);
  if (spec.accumulate)
    pass.accumulate_ = reinterpret_cast<const float*>(memory.accumulate);
  pass.rows_ = starts_of(spec.out, inner);
  pass.columns_ = spec.out.dimensions[inner];
  return pass;
}

void DotEpiloguePass::run() const {
  for (const int64_t row : rows_) {
    for (int64_t from = 0; from < columns_; from += kPieceElements) {
      const Piece piece{.out = out_ + row + from,
                        .count = std::min(kPieceElements, columns_ - from)};
      if (alpha_ != 1) piece.scale(alpha_);
      if (bias_ != nullptr) piece.add(bias_ + from);
      if (accumulate_ != nullptr) piece.add(accumulate_ + row + from);
      if (relu_) piece.rectify();
    }
  }
}

}  // namespace reprise
