// Windows of convolution, reduce-window and select-and-scatter.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "data/hlo/module.h"
#include "data/result.h"

namespace reprise {

/// One dimension of `window={size=3x3 stride=2x2 pad=1_1x1_1 lhs_dilate=…
/// rhs_dilate=…}`.
struct WindowDimension {
  int64_t size = 1, stride = 1;
  int64_t padding_low = 0, padding_high = 0;
  int64_t base_dilation = 1, window_dilation = 1;
  int64_t reversal = 0;  ///< 1: the window is walked from its end.
};

/// Where each dimension of a convolution's operands and result stands,
/// `dim_labels=b01f_01io->b01f`.
struct ConvolutionDimensions {
  struct Array {
    size_t batch = 0, feature = 0;  ///< Of a kernel: input and output features.
    std::vector<size_t> spatial;
  };
  Array input, kernel, output;
};

/// Errors: kInvalid when `dim_labels` does not name each dimension once, of one
/// rank for all three.
Result<ConvolutionDimensions> convolution_dimensions(
    const Instruction& convolution);

/// Empty without a `window` attribute. Errors: kInvalid when it is malformed.
Result<std::vector<WindowDimension>> window_dimensions(
    const Instruction& instruction);

/// Along one dimension each window holds what comes before its element and the
/// element, or the element and what comes after; along the others the element
/// alone.
struct CumulativeWindow {
  size_t dimension = 0;
  bool is_before = true;
};

/// What a reduce-window over an array of these extents is, if cumulative.
std::optional<CumulativeWindow> cumulative_window(
    const std::vector<WindowDimension>& window,
    const std::vector<int64_t>& extents);

/// Elements along one dimension up to which XLA takes the windows of a
/// cumulative reduce-window one by one; longer ones are made of blocks of so
/// many (its ReduceWindowRewriter).
inline constexpr int64_t kCumulativeBlock = 16;

}  // namespace reprise
