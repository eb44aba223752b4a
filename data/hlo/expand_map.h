// Maps as element-wise ops.
#pragma once

#include <optional>

#include "data/hlo/module.h"

namespace reprise {

/// Appends to `to` what a map computes, as ops of whole arrays in place of its
/// function's of one element: XLA writes a scatter of one update an element as
/// a map. Nothing where the function is of other than element-wise ops. `map`:
/// with operands of `to`.
std::optional<InstructionId> expand_map(const Instruction& map,
                                        const Computation& function,
                                        Computation* to);

}  // namespace reprise
