// Convolutions as pads, slices and dots, for devices that have a library of
// matrix products and kernels for the rest.
#pragma once

#include <optional>

#include "data/hlo/module.h"

namespace reprise {

/// A program of the convolution's two operands that gives a tuple of its
/// result: slices of the padded input side by side, times the filter (im2col;
/// source: K. Chellapilla et al., High performance convolutional neural
/// networks for document processing, 2006), or, where the filter has more
/// places than the result, as in gradients by the filter, a product for each
/// place of the result. Of f32 and bf16; nothing where there would be too many
/// slices. Requires: the instruction has been verified.
std::optional<InlinedModule> expand_convolution(const Computation& computation,
                                                const Instruction& convolution);

}  // namespace reprise
