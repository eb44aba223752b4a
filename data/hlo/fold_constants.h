// Constants of sums and products, folded.
#pragma once

#include "data/hlo/module.h"

namespace reprise {

/// Of f32 and f64, with the same constant for every element: a quotient by a
/// constant becomes a product with its reciprocal, a constant added to (taken
/// from) a sum or a difference that has one, or multiplied with such a product,
/// is combined with that: `x / 10` is `x * 0.1`, `(1 - x) + 1e-6` is
/// `1.000001 - x`, `(x / 3) * 0.7` one product. `c - (x + d)` stays. So do
/// XLA's CPU and GPU compilers, after the pass whose dump is a program here
/// (AlgebraicSimplifier::HandleAdd, HandleSubtract, HandleMultiply,
/// HandleDivide; JAX 0.5.3 and 0.10.2 give these bits). Where the rest is near
/// zero, as in a log of 1 - tanh(x)^2 + 1e-6, the difference is large: 5e-4 of
/// the change of the weights of a soft actor-critic in 20 steps.
/// XLA of JAX 0.12 combines no constants any more, quotients alone become
/// products: so does `combines` false.
/// What nothing reads any more is left out. Cost: linear.
void fold_constants(Computation* computation, bool combines = true);

/// Whether the XLA that a module is for combines constants: a module says
/// otherwise by its header's
/// `frontend_attributes={reprise_constants="separate"}`, which
/// `reprise.jax.export` writes where it finds that XLA computes so.
bool combines_constants(const Module& module);

}  // namespace reprise
