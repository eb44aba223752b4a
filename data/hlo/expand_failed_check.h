// Checks of values that JAX's libraries make while a step runs.
#pragma once

#include <optional>

#include "data/hlo/module.h"

namespace reprise {

/// The call of Python in the branch of equinox's error_if that a failed check
/// takes, where it raises or, on TPUs, gives values that show. Checks of
/// diffrax, lineax and optimistix are made by it.
bool is_failed_check(const Instruction& instruction);

/// Appends to `to` what equinox gives where a check
/// fails and nothing can be raised (equinox/_errors.py, `_nan_like`): NaN, the
/// largest integer, true. Nothing for values of other types.
std::optional<InstructionId> expand_failed_check(const Instruction& call,
                                                 Computation* to);

}  // namespace reprise
