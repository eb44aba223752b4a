// What a schedule's constant buffers hold, as bytes of their type.
#pragma once

#include <cstddef>
#include <span>

#include "data/hlo/module.h"
#include "data/result.h"

namespace reprise {

/// Writes what a step never changes: a constant's elements, row-major, or what
/// partition-id or replica-id gives on `rank` (partitions vary fastest, as the
/// header counts them). Requires: `out` has the literal's size. Errors:
/// kUnsupported for types without a host representation and elided literals.
Status write_constant(const Module& module, const Instruction& constant,
                      int64_t rank, std::span<std::byte> out);

}  // namespace reprise
