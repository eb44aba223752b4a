// Cumulative sums, products, maxima: JAX's cumsum and its kin are
// reduce-windows whose window is as long as the array, so that one by one n
// windows take n^2 steps; as a recurrence they take n.
#pragma once

#include <memory>
#include <vector>

#include "data/hlo/window.h"
#include "runtime/cpu/reducer_call.h"
#include "runtime/cpu/routine.h"

namespace reprise {

/// Null for another reduce-window than one of this kind: along one dimension
/// each window holds what comes before its element and the element, or the
/// element and what comes after. From the first on, elements are taken in the
/// order of any reduce-window, to the same bits; from the last on in the
/// reverse, which keeps short arrays and reducers of several arrays that are
/// not one commutative op from being any. Those of bf16 and f16, which round at
/// each element (sums, products and functions of several ops, as of
/// log-sum-exp), and functions from the last on are in XLA's order: by blocks
/// of 16, to each of whose sums the one of the blocks before is added, made in
/// the same way (its ReduceWindowRewriter; JAX 0.10.2 for 16 to 400 elements).
/// Requires: `window` has a dimension for each of the operands', at least one.
std::unique_ptr<Routine> make_cumulative_window(
    const RoutineCall& call, const std::vector<WindowDimension>& window,
    const ReducerCall& reducer);

}  // namespace reprise
