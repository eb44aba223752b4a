// In which types ranks combine what kernels hold in fewer bits.
#pragma once

#include "data/hlo/module.h"

namespace reprise {

/// Has all-reduces and reduce-scatters by addition of bf16 take and give f32,
/// to be rounded afterwards; of the entry and of the computations that run as
/// parts of it. Greatest and least stay: rounding keeps the order. So does
/// XLA's CPU (AllReducePromotion, ReduceScatterPromotion; JAX 0.5.3 to 0.12),
/// which then reads what bf16 arithmetic made before it was rounded, and the
/// sum after it was. It leaves f16.
void sum_in_f32(Module* module);

/// Has all-reduces and reduce-scatters of floats of fewer than 16 bits take and
/// give f16 (f32 where f16 has not all values) and those of integers of 4 bits
/// and 2 bytes, to be rounded or cut afterwards, as XLA's CPU does (the same
/// versions); but those whose reducer another op reduces by, too.
/// widen_narrow_types() begins with it.
void combine_in_wider_types(Module* module);

/// Whether the XLA that a module is for does so: its header says
/// `frontend_attributes={reprise_sums="f32"}`, which `reprise.jax.export`
/// writes where it finds that XLA computes so.
bool sums_in_f32(const Module& module);

}  // namespace reprise
