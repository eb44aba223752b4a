// What a kernel computes, in operations of loops that make vectors.
#pragma once

#include <cstddef>

#include "data/kernel/kernel.h"

namespace reprise {

/// Operations that it runs, no fewer than XLA counts. What is computed more
/// than once counts as often: a window's elements for each window that they are
/// in, a producer for each branch of its reader. Beside the ops themselves:
/// - Index arithmetic that changes along the innermost loop: 2 for a clamp, 1
///   for a quotient or remainder by a power of two, 4 by another number. Clamps
///   of the loop's own variable are borders of its pieces, which cost nothing.
/// - An element that is loaded or stored by itself, not beside its neighbour of
///   the iteration before, counts kVectorElements.
/// - Whatever runs element by element counts kVectorElements times: loops that
///   store where values of their own say, call a library, are to be run in
///   order or are shorter than a vector, and what stands between loops, of
///   which lanes that are reset or combined count as kLanes, and starting a
///   loop as 16 in all.
///
/// Measured on one core, on the 2,063 kernels of 12 steps (cumulative sums,
/// products and maxima, splines, norms of 16-bit floats, state spaces and
/// others), each op on its own and under plans that ops alone had priced: a
/// roofline with the best constants is off by a factor of 1.6 in the mean
/// instead of 2.0. Kernels that are pads, slices and sums of halves, which the
/// ops alone say least of, were off by up to 10.
/// Cost: linear in statements and their expressions.
double kernel_flops(const Kernel& kernel);

/// All statements, those inside of loops included.
size_t statement_count(const Kernel& kernel);

}  // namespace reprise
