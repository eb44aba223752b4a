// HLO literals as the bytes of their type.
#pragma once

#include <cstddef>
#include <span>

#include "data/hlo/module.h"
#include "data/result.h"

namespace reprise {

/// Writes a constant's elements, row-major. Requires: `out` has the literal's
/// size. Errors: kUnsupported for types without a host representation and
/// elided literals.
Status write_constant(const Instruction& constant, std::span<std::byte> out);

}  // namespace reprise
