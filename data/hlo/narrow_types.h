// Programs of floats of 8 bits and fewer and of integers of less than 8 as
// programs of wider types.
#pragma once

#include "data/hlo/module.h"

namespace reprise {

/// The same program with values of narrow types held in holding_type
/// (narrow_type.h), rounded, or wrapped, wherever the program makes one: by a
/// conversion or by arithmetic, which is computed in f32. Nearest, ties to
/// even, as XLA:CPU of JAX 0.10.2 (looked up for 800,000 values of f8e4m3fn and
/// f8e5m2, 20,000 and all ties of the others), and what is too large as
/// narrow_type.h says; floats saturate in integers.
///
/// What becomes f8e4m3fn, f8e5m2, f8e4m3b11fnuz or f4e2m1fn is rounded to f16
/// before where the header, or the op, says
/// `frontend_attributes={reprise_narrow="by_f16"}`, which `reprise.jax.export`
/// writes where it finds that XLA computes so: that of JAX 0.5.3 always, that
/// of 0.7.2 in conversions that are fused with nothing (looked up for 65,536
/// values of each of nine types).
///
/// Parameters and results of the entry are of stored_type, one byte an element,
/// so that kernels, plans and devices never meet a narrow type; what they were,
/// declared_type tells. Results hold integers as signed or unsigned bytes, and
/// one NaN. Requires: so do parameters hold integers.
///
/// Reductions keep sums in the holding type. What custom calls take keeps its
/// type, for lowering to refuse by name. Cost: linear.
void widen_narrow_types(Module* module);

}  // namespace reprise
