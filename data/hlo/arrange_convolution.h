// Convolutions as NVIDIA's library has them: one of three forms, its arrays in
// one of two orders, padding the same on both sides. An instruction of any
// dimension numbers, dilations, reversals and groups is one of these after
// transposes, pads and slices.
#pragma once

#include <cstdint>
#include <optional>

#include "data/hlo/module.h"
#include "data/hlo/program_text.h"

namespace reprise {

enum class CanonicalForm : uint8_t {
  kForward,   ///< images x filter -> outputs
  kByInput,   ///< outputs x filter -> images
  kByFilter,  ///< images x outputs -> filter
};

/// A convolution forward, of images with a filter, and its two gradients. All
/// three are told by the forward one's numbers. With `features_last` arrays are
/// [image, place..., feature] and the filter [output, tap..., input of a
/// group]; else [image, feature, place...] and [output, input of a group,
/// tap...]. Rows of each are dense.
struct CanonicalConvolution {
  CanonicalForm form = CanonicalForm::kForward;
  PrimitiveType type = PrimitiveType::kF32;
  bool features_last = true;
  int64_t images = 1, inputs = 1, outputs = 1, groups = 1;
  /// One number a place: extents of images, of the filter, of the outputs.
  ArrayExtents input_places, taps, output_places;
  ArrayExtents padding, stride, dilation;

  ArrayExtents image_shape() const;
  ArrayExtents filter_shape() const;
  ArrayExtents output_shape() const;
  /// Of the two operands and the result, in this order.
  ArrayExtents lhs_shape() const;
  ArrayExtents rhs_shape() const;
  ArrayExtents result_shape() const;
};

/// Programs of one parameter that make the library's operands of the
/// instruction's, and its result of the library's; none where they are the
/// same.
struct ArrangedConvolution {
  CanonicalConvolution convolution;
  std::optional<InlinedModule> lhs, rhs, result;
};

/// Of f16, bf16, f32 and f64, one to three places. Nothing where types differ,
/// an array is empty, or the instruction is none of the forms: strides beside
/// dilated images, filter gradients of a reversed window. Requires: the
/// instruction has been verified.
std::optional<ArrangedConvolution> arrange_convolution(
    const Computation& computation, const Instruction& convolution,
    bool features_last);

}  // namespace reprise
