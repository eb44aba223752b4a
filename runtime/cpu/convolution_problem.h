// A convolution in oneDNN's words. HLO has one convolution for three: a forward
// one, that of a gradient by the input (its input is dilated by the strides of
// the forward one) and that of a gradient by the filter (its window is as large
// as the image); and a transposed convolution's gradient by the filter is both
// dilated and as large. Each is given to oneDNN as what it is, since only so do
// its layouts and loops fit.
//
// In one spatial dimension, with `s`, `w`, `d` the window's stride and dilation
// and the input's dilation, and `lo` its padding, HLO computes
//   out[p] = sum over t of dilated(input)[p * s + t * w - lo] * kernel[t],
// which with d = 1 is oneDNN's forward convolution of stride s; with s = 1 its
// gradient by the input, of stride d, whose taps are counted from the other end
// and whose padding is (extent(kernel) - 1) * w - lo; and with p and t swapped
// its gradient by the filter, of stride w and dilation s. With d > 1 and s = w
// = 1 it is, too, a gradient by the filter of stride d whose image is the
// kernel and whose taps are counted from the other end: with q input's place,
//   out[extent(out) - 1 - r] =
//       sum over q of input[q] * kernel[q * d + r - (extent(out) - 1 - lo)].
#pragma once

#include <cstdint>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <vector>

#include "runtime/cpu/convolution_geometry.h"
#include "runtime/cpu/routine.h"

namespace reprise {

enum class ConvolutionForm : uint8_t {
  kForward,
  kByInput,
  kByFilter,
  kByTransposedFilter,
};

struct ConvolutionProblem {
  ConvolutionForm form = ConvolutionForm::kForward;
  /// As they lie in memory, of f32 or bf16 each. Image and result are those of
  /// the forward convolution, whichever of the three is computed.
  dnnl::memory::desc image, filter, result;
  /// By oneDNN's spatial dimension; a dilation of 0 is none.
  dnnl::memory::dims strides, dilations, low, high;
  /// By the program's: the filter's taps run the other way.
  std::vector<bool> turned;

  /// What is computed is the filter.
  bool is_by_filter() const {
    return form == ConvolutionForm::kByFilter ||
           form == ConvolutionForm::kByTransposedFilter;
  }
};

/// In one to three spatial dimensions; nothing where oneDNN has no words for
/// it. Requires: the geometry is that of `call`. Throws what oneDNN throws.
std::optional<ConvolutionProblem> convolution_problem(
    const RoutineCall& call, const ConvolutionGeometry& geometry);

}  // namespace reprise
