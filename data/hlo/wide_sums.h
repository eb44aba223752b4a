// Sums among ranks of 16 bits.
#pragma once

#include "data/hlo/module.h"

namespace reprise {

/// Has all-reduces and reduce-scatters of bf16 and f16 take and give f32, to be
/// rounded afterwards; of the entry and of the computations that run as parts
/// of it. Greatest and least stay: rounding keeps the order. So does XLA's CPU
/// (AllReducePromotion, ReduceScatterPromotion; JAX 0.5.3 and 0.10.2), which
/// then reads what bf16 arithmetic made before it was rounded, and the sum
/// after it was.
void sum_in_f32(Module* module);

/// Whether the XLA that a module is for does so: its header says
/// `frontend_attributes={reprise_sums="f32"}`, which `reprise.jax.export`
/// writes where it finds that XLA computes so.
bool sums_in_f32(const Module& module);

}  // namespace reprise
