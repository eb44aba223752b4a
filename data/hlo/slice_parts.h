// Slices of what was put together from parts.
#pragma once

#include "data/hlo/module.h"

namespace reprise {

/// Has slices read the parts that an array is made of, not the array: of a
/// concatenation the operand that holds them, of a slice what that is cut from,
/// of a padded array the one before it was padded. One element of a constant
/// becomes a constant, and what a reshape only undoes is read before it. So a
/// stack of what each step of an unrolled loop leaves, which its gradient takes
/// apart again, is never made. XLA's CPU and GPU compilers do the same after
/// the pass whose dump is a program here (AlgebraicSimplifier::HandleSlice,
/// HandleReshape). No value changes, and where it `keeps_rounding`, what was
/// rounded is still read through a reshape (data/hlo/unrounded_reads.h); what
/// waits for something by a control edge
/// is not looked through. What nothing reads any more is left out. Cost:
/// linear, and a search among the operands for each slice of a concatenation.
void slice_parts(Computation* computation, bool keeps_rounding = true);

}  // namespace reprise
