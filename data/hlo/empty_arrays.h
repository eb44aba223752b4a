// What ops over arrays without elements come to.
#pragma once

#include <optional>

#include "data/hlo/module.h"

namespace reprise {

/// True of an array that has no element.
bool is_empty_array(const Shape& shape);

/// Appends to `entry` what an instruction over empty arrays gives where it has
/// elements all the same: a dot or convolution zeros, a reduce its initial
/// values, a pad its padding, a concatenate the other operands, an update or
/// scatter of nothing its operand, a scatter by indices of no dimension one by
/// zeros. Returns the result, or nothing where the
/// instruction is to stand as it is. `entry` holds the operands. JAX before 0.6
/// leaves such in `lax.map(batch_size=…)` of whole batches.
std::optional<InstructionId> append_without_empty(
    const Instruction& instruction, Computation* entry);

}  // namespace reprise
