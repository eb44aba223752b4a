// Which ops are views: never computed for themselves, folded as index maps into
// what reads them.
#pragma once

#include "data/hlo/opcode.h"

namespace reprise {

/// True for ops that never are units: they fold, as index maps, into what reads
/// them (constant, iota, broadcast, reshape, bitcast, get-tuple-element, tuple,
/// opt-barrier, parameter).
bool is_view(Opcode opcode);

}  // namespace reprise
