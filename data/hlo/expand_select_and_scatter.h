// Gradients of pooling as slices, pads and selects, for devices that have
// kernels but no routine for them.
#pragma once

#include <optional>

#include "data/hlo/module.h"

namespace reprise {

/// A program of the instruction's three operands that gives a tuple of its
/// result, with the bits that computing window by window in row-major order
/// gives: first the number of the place that each window selects, folded over
/// its places in order, then, for each element of the result, what the windows
/// that cover it scatter there, in the order of the windows. Nothing for
/// windows of more than 64 places, dilated or reversed, for computations of
/// more than a few elementwise ops of their parameters, and where an array is
/// empty, a scalar, or of another type. Requires: the instruction has been
/// verified.
std::optional<InlinedModule> expand_select_and_scatter(
    const Module& module, const Instruction& instruction);

}  // namespace reprise
