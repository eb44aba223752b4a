// Windows of convolution, reduce-window and select-and-scatter.
#pragma once

#include <cstdint>
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
};

/// Empty without a `window` attribute. Errors: kInvalid when it is malformed.
Result<std::vector<WindowDimension>> window_dimensions(
    const Instruction& instruction);

}  // namespace reprise
