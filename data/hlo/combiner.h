// The one operation by which a reduction combines elements.
#pragma once

#include <optional>

#include "data/hlo/module.h"

namespace reprise {

/// f16 or bf16, of which each sum rounds to 16 bits.
bool is_half(PrimitiveType type);

/// The binary op of a `to_apply` that combines its two parameters, e.g. kAdd,
/// also of bf16 or f16 values that are widened to f32 for it and rounded
/// after; kParameter when it returns its second parameter; nothing for any
/// other computation.
std::optional<Opcode> combining_opcode(const Module& module,
                                       const Instruction& instruction);

}  // namespace reprise
