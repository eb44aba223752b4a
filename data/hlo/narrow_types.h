// Programs of floats and integers below a byte's worth of precision as programs
// of wider types.
#pragma once

#include "data/hlo/module.h"

namespace reprise {

/// The same program with values of f8e4m3fn, f8e5m2, s4 and u4 held in
/// holding_type (narrow_type.h), rounded, or wrapped, wherever the program
/// makes one: by a conversion or by arithmetic, which is computed in f32.
/// Nearest, ties to even, as XLA:CPU of JAX 0.10.2 (looked up for 800,000
/// values of each); beyond the largest f8e4m3fn is NaN, f8e5m2 infinity; floats
/// saturate in s4 and u4.
///
/// Parameters and results of the entry are of stored_type, one byte an element,
/// so that kernels, plans and devices never meet a narrow type; what they were,
/// declared_type tells. Results hold integers as signed or unsigned bytes, and
/// one NaN. Requires: so do parameters hold integers.
///
/// Reductions keep sums in the holding type. A 4-bit integer's bits
/// (bitcast-convert) beside types of other widths, and what custom calls take,
/// keep their type, for lowering to refuse by name. Cost: linear.
void widen_narrow_types(Module* module);

}  // namespace reprise
