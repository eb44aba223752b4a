#include "runtime/cpu/dot_epilogue_pass.h"

#include <algorithm>
#include <cmath>

#include "runtime/cpu/dot.h"
#include "runtime/cpu/wide_vectors.h"

namespace reprise {
namespace {

// Where the machine has the instruction, loops over it: the same bits as by a
// call of the C library for each element, which no loop is vectorized around.
/// out = out * alpha + addend, rounded once.
REPRISE_WITH_FMA void multiply_add_by_instruction(float* out, float alpha,
                                                  const float* addend,
                                                  int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    out[i] = __builtin_fmaf(out[i], alpha, addend[i]);
}
void multiply_add_by_call(float* out, float alpha, const float* addend,
                          int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    out[i] = std::fma(out[i], alpha, addend[i]);
}

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

/// One contiguous run of the result. Steps are loops of their own over a piece
/// that stays in the first cache, so that each is vectorized plainly.
struct DotEpiloguePass::Piece {
  float* out = nullptr;
  int64_t count = 0;

  void scale(float alpha) const {
    for (int64_t i = 0; i < count; ++i) out[i] = out[i] * alpha;
  }
  void scale_and_add(float alpha, const float* addend) const {
    static const auto run =
        has_fma() ? multiply_add_by_instruction : multiply_add_by_call;
    run(out, alpha, addend, count);
  }
  void add(const float* addend) const {
    for (int64_t i = 0; i < count; ++i) out[i] = out[i] + addend[i];
  }
  /// HLO's maximum(x, 0): NaN stays; -0, equal to 0, becomes the second.
  void rectify() const {
    for (int64_t i = 0; i < count; ++i) out[i] = out[i] <= 0 ? 0 : out[i];
  }
};

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
  pass.multiply_add_ = spec.multiply_add;
  pass.relu_ = spec.activation == DotActivation::kRelu;
  pass.out_ = reinterpret_cast<float*>(memory.out);
  if (spec.bias) pass.bias_ = reinterpret_cast<const float*>(memory.bias);
  if (spec.accumulate)
    pass.accumulate_ = reinterpret_cast<const float*>(memory.accumulate);
  pass.rows_ = starts_of(spec.out, inner);
  pass.columns_ = spec.out.dimensions[inner];
  return pass;
}

void DotEpiloguePass::finish(const Piece& piece, const float* bias,
                             const float* accumulate) const {
  const float* first = bias != nullptr ? bias : accumulate;
  if (multiply_add_) {
    piece.scale_and_add(alpha_, first);
  } else {
    if (alpha_ != 1) piece.scale(alpha_);
    if (first != nullptr) piece.add(first);
  }
  if (bias != nullptr && accumulate != nullptr) piece.add(accumulate);
  if (relu_) piece.rectify();
}

void DotEpiloguePass::run() const {
  for (const int64_t row : rows_) {
    for (int64_t from = 0; from < columns_; from += kPieceElements) {
      const Piece piece{.out = out_ + row + from,
                        .count = std::min(kPieceElements, columns_ - from)};
      finish(piece, bias_ == nullptr ? nullptr : bias_ + from,
             accumulate_ == nullptr ? nullptr : accumulate_ + row + from);
    }
  }
}

}  // namespace reprise
