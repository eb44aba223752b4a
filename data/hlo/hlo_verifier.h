// Checks instructions against their operands. A dynamic dimension counts as its
// bound. What XLA allows and Reprise does not interpret (layouts, custom calls)
// passes.
#pragma once

#include "data/hlo/module.h"
#include "data/result.h"

namespace reprise {

/// Same array type and extents all the way down; layouts and dynamic flags do
/// not count.
bool same_dimensions(const Shape& a, const Shape& b);

/// Checks arity, types and extents of one instruction, whose operands are in
/// `computation`. Errors: kInvalid, naming the instruction, what was found and
/// what was expected.
Status verify_instruction(const Module& module, const Computation& computation,
                          const Instruction& instruction);

/// Checks that aliases pair outputs and parameters of the entry, each once and
/// of one size.
Status verify_aliases(const Module& module);

/// Checks every instruction of a module and the invariants of module.h.
Status verify(const Module& module);

}  // namespace reprise
