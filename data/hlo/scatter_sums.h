// Scatters into zeros that are then added to something.
#pragma once

#include "data/hlo/module.h"

namespace reprise {

/// A sum with a scatter that adds into zeros, and that nothing else reads,
/// becomes the scatter into the other summand, under the sum's name: gradients
/// of rows that a loop gathers touch those rows, not the table, and so does
/// XLA (compiled texts of JAX 0.5.3 to 0.12.0.1). Not of bf16 where it
/// `keeps_rounding`: XLA rounds what was scattered before it adds that. Returns
/// whether there was one. Cost: linear.
bool scatter_into_sums(const Module& module, Computation* computation,
                       bool keeps_rounding = true);

}  // namespace reprise
