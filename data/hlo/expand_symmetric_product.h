// cuSOLVER's product of a matrix with its transpose in ops that run.
#pragma once

#include <optional>

#include "data/hlo/module.h"

namespace reprise {

/// The call that JAX writes for lax.linalg.symmetric_product on GPUs.
bool is_symmetric_product(const Instruction& instruction);

/// Appends to `to`, under its name, `alpha a aᵀ + beta c` of the operands a, c,
/// alpha and beta, or that of `aᵀ a`, by a dot as JAX does on CPU; both
/// triangles, of which the call leaves one undefined. Nothing for complex
/// numbers and where shapes do not fit. `call`: with operands of `to`.
std::optional<InstructionId> expand_symmetric_product(const Instruction& call,
                                                      Computation* to);

}  // namespace reprise
