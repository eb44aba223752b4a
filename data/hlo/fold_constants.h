// Constants of sums and products, folded.
#pragma once

#include "data/hlo/module.h"

namespace reprise {

/// Of which types quotients by what is broadcast become products with what its
/// reciprocals are.
enum class Reciprocals : uint8_t { kNone, kHalf, kAll };

/// How constants are folded, beside quotients by constants.
struct ConstantFolding {
  bool combines = true;  ///< Two constants that meet.
  bool half = true;      ///< Of f16, too.
  Reciprocals reciprocals = Reciprocals::kNone;
  /// Sums of copies, and constants on both sides of what moves elements.
  bool copies = true;
  bool nested = true;  ///< Functions of functions (nested_functions.h).
};

/// Of f16, f32 and f64, with the same constant for every element: a quotient by
/// a constant becomes a product with its reciprocal, a constant added to (taken
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
/// XLA of JAX 0.10 to 0.12 takes reciprocals of what is broadcast, too, before
/// it is (0.7.2 does not), where nothing else reads that: `x / broadcast(s)` is
/// `x * broadcast(1 / s)`, of two quotients by one broadcast the first, and
/// `x * broadcast(sqrt(a))` where s is rsqrt(a). Where both sides are broadcast
/// alike it divides before it broadcasts. Of f32 that is a last bit, but f16
/// rounds them. (Of bf16, which XLA divides in f32, it is left out.)
/// A sum over dimensions that a broadcast added is a product with the number of
/// copies (HandleReduce; the same bits), so that a mean of copies is what was
/// copied: a norm over rows that are all alike leaves nothing of them, and its
/// epsilon makes the last bit of a sum 1e-4 of the result. Constants meet
/// through reshapes, broadcasts and transposes that have no other reader, too.
/// What nothing reads any more is left out. Cost: linear.
void fold_constants(const Module& module, Computation* computation,
                    const ConstantFolding& how);

/// How the XLA that a module is for does so: a module's header may say
/// `frontend_attributes={reprise_constants="separate"}` and
/// `reprise_quotients="reciprocals"`, which `reprise.jax.export` writes where
/// it finds that XLA computes so (`"reciprocal"`: of f16 alone, as in exports
/// of before).
ConstantFolding constant_folding(const Module& module);

}  // namespace reprise
