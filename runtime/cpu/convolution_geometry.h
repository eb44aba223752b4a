// A convolution as a matrix product: rows are (image, position) pairs, the
// depth (input feature, tap) pairs, columns output features; what each pair of
// row and depth names in the input, if anything.
#pragma once

#include <cstdint>
#include <vector>

#include "data/hlo/window.h"
#include "data/result.h"
#include "runtime/cpu/routine.h"

namespace reprise {

struct ConvolutionGeometry {
  /// One array's extents and strides in elements.
  struct Axis {
    int64_t extent = 1, stride = 0;
  };
  Axis batch, feature;                      ///< Of the input, of one group.
  Axis kernel_input, kernel_output;         ///< Of one group.
  Axis out_batch, out_feature;              ///< Of one group.
  std::vector<Axis> input, kernel, output;  ///< Spatial.
  std::vector<WindowDimension> window;
  int64_t groups = 1;        ///< Of features or of images.
  int64_t batch_groups = 1;  ///< `groups` where images are parted, or 1.
  /// From one group to the next, in elements.
  int64_t input_step = 0, kernel_step = 0, output_step = 0;

  int64_t positions() const { return product(output); }
  int64_t taps() const { return product(kernel); }
  /// Input elements of `tap` at `position` from the start of an image and
  /// feature, by spatial dimension, -1 where that is padding or a hole:
  /// [dimension][position × taps of it + tap].
  std::vector<std::vector<int64_t>> offsets() const;

  static int64_t product(const std::vector<Axis>& axes) {
    int64_t count = 1;
    for (const Axis& axis : axes) count *= axis.extent;
    return count;
  }
};

/// Errors: kInvalid when numbers and shapes contradict each other.
Result<ConvolutionGeometry> convolution_geometry(const RoutineCall& call);

}  // namespace reprise
