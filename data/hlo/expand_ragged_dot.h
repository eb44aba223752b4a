// XLA's `ragged-dot`, which JAX from 0.11 on writes for lax.ragged_dot on GPUs.
#pragma once

#include <optional>

#include "data/hlo/expansion_ops.h"
#include "data/hlo/module.h"

namespace reprise {

/// Appends to `to`, under its name, the dot that JAX writes on CPU: rows of a
/// group beside each other, zeros in place of those of other groups. Its kinds,
/// by what the ragged dimension of the left side is: one that stays (the right
/// side has a matrix for each group, and the groups are summed over), one that
/// is summed over (the result has a matrix for each group), one of the batch (a
/// plain dot). Groups may be of their own sizes for each place of the
/// dimensions that stand before the ragged one. Nothing where operands and
/// dimensions do not fit together so. `dot`: with operands of `to`.
std::optional<InstructionId> expand_ragged_dot(const Computation& around,
                                               const Instruction& dot,
                                               RebuiltModule* rebuilt,
                                               Computation* to);

}  // namespace reprise
