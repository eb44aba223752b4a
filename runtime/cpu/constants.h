// What a schedule's constant buffers hold, as bytes of their type.
#pragma once

#include <cstddef>
#include <span>

#include "data/hlo/collective_ranks.h"
#include "data/hlo/module.h"
#include "data/result.h"

namespace reprise {

/// Writes what a step never changes: a constant's elements, row-major, or what
/// partition-id or replica-id gives on a rank. Requires: `out` has the
/// literal's size. Errors: kUnsupported for types without a host representation
/// and elided literals.
Status write_constant(const Module& module, const Instruction& constant,
                      const RankOfAll& place, std::span<std::byte> out);

}  // namespace reprise
