// Programs of floats and integers below a byte's worth of precision as programs
// of wider types.
#pragma once

#include "data/hlo/module.h"

namespace reprise {

/// The type that holds every value of a narrow one: bf16 of 8-bit floats (none
/// has more than 3 bits of mantissa), s8 and u8 of 4-bit integers; the type
/// itself of all others.
PrimitiveType holding_type(PrimitiveType type);

/// The same program with values of f8e4m3fn, f8e5m2, s4 and u4 held in
/// holding_type, rounded, or wrapped, wherever the program makes one: by a
/// conversion or by arithmetic, which is computed in f32. Nearest, ties to
/// even, as XLA:CPU of JAX 0.10.2 (looked up for 800,000 values of each);
/// beyond the largest f8e4m3fn is NaN, f8e5m2 infinity; floats saturate in s4
/// and u4.
///
/// Reductions keep sums in the holding type. Arrays that enter or leave the
/// program, the bits of a value (bitcast-convert) and what custom calls take
/// keep their type, for lowering to refuse by name. Cost: linear.
void widen_narrow_types(Module* module);

}  // namespace reprise
