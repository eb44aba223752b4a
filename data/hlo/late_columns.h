// Sums over windows that leave one column for the end.
#pragma once

#include <optional>
#include <vector>

#include "data/hlo/module.h"

namespace reprise {

/// Notes among its `frontend_attributes` each reduce-window of bf16 or f16 that
/// takes the last element along one dimension after all others, where the XLA
/// that a module is for does so: the header then says
/// `frontend_attributes={reprise_windows="late"}`, which `reprise.jax.export`
/// writes where it finds that XLA computes so.
///
/// XLA's CPU (PeelLoopsPass; JAX 0.10.2 to 0.12) splits the loop over a window
/// of which some reach beyond the end by that element alone, and none before
/// the beginning, so that what is left needs no test: of a window of 3 x 3
/// under SAME and a stride of 2 it takes two columns row by row, then the
/// third. Of two columns one is left, which counts as no loop: those it splits
/// wherever one reaches out. The last such dimension is split, no other, and
/// none behind which windows have 64 elements or more. Cost: linear.
void note_late_columns(const Module& module, Computation* computation);

/// The numbers of a window's elements, which count row by row, in the order in
/// which they are combined. `operand`: the extents of what it is over.
std::vector<int64_t> window_order(const Instruction& reduce_window,
                                  const std::vector<int64_t>& operand);

}  // namespace reprise
