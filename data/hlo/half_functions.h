// Functions of f16 whose way to the result rounds.
#pragma once

#include "data/hlo/module.h"

namespace reprise {

/// Which functions of f16 round on the way.
struct HalfFunctions {
  bool expm1 = false;   ///< XLA's CPU compiler up to JAX 0.11.
  bool others = false;  ///< rsqrt, log1p and cbrt: up to JAX 0.7.
};

/// Puts in the place of those of a computation the steps that XLA's compiler
/// takes in f16 (its ElementalIrEmitter; JAX 0.5.3, 0.7.2 and, of expm1, 0.10.2
/// give these bits for every argument):
///   rsqrt(x) = 1 / sqrt(x)
///   cbrt(x) = |x|^(1/3), with the sign of x
///   log1p(x) = log(x + 1) where |x| >= sqrt(2) - 1, else x - x^2 / 2 +
///              x^3 N(x) / D(x), N and D of the Cephes library
///   expm1(x) = exp(x) - 1 where |x| > 1/2, else with h = x / 2
///              tanh(h) (exp(x) + 1), or x where h is 0
/// (tan(x) is sin(x) / cos(x) up to JAX 0.5 alone, and not here.)
/// Cost: linear.
void round_in_half(HalfFunctions which, Computation* computation);

/// Those of the XLA that a module is for, whose header says
/// `frontend_attributes={reprise_half_expm1="steps"}` and
/// `reprise_half_functions="steps"`, which `reprise.jax.export` writes where it
/// finds that XLA computes so.
HalfFunctions half_functions(const Module& module);

}  // namespace reprise
