// Dots that kernels compute.
#pragma once

#include "data/hlo/module.h"

namespace reprise {

/// Notes among its `frontend_attributes` each dot of f32 or f64 that a library
/// would take longer to be called for than to compute: of depth one
/// (`einsum('bi,bj->bij')` and its gradients sum nothing), or many small
/// matrices, which oneDNN 2.6.3 takes 0.03 to 1 us each for (384 of 1x1x1 75
/// us, half of a state-space model's step; 9 of 3x6x6 5 us; Xeon, 2026-11).
/// Kernels compute its elements one by one, and fuse them with what they come
/// from and go to. Cost: linear.
void note_small_dots(Computation* computation);

/// True of a dot that is noted, and small.
bool is_small_dot(const Computation& computation, const Instruction& dot);

}  // namespace reprise
