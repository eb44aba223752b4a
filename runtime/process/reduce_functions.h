// How ranks' elements are combined on the CPU, for every type.
#pragma once

#include <cstddef>

#include "data/collective/collective.h"
#include "data/primitive_type.h"

namespace reprise {

/// out[i] = a[i] combined with b[i], the same bits in either order. 16-bit
/// floats are combined in f32 and rounded, as kernels do; of preds a sum is
/// `or`, a product `and`.
using ReduceFunction = void (*)(void* out, const void* a, const void* b,
                                size_t elements);

/// Null for a type that no kernel stores.
ReduceFunction reduce_function(PrimitiveType type, Reduction reduction);

/// out[i] = element i of `parts`, each of `elements`, combined in their order:
/// of bf16 in f32, rounded once, as XLA's CPU promotes such all-reduces; of f16
/// rounded at each, as it leaves these. Looked up in JAX 0.10.2.
using CombineFunction = void (*)(void* out, const void* parts, size_t count,
                                 size_t elements);

/// Null for what has the same bits in any order, or is not of 16-bit floats.
CombineFunction combine_function(PrimitiveType type, Reduction reduction);

}  // namespace reprise
