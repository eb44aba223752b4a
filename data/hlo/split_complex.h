// Programs of complex numbers as programs of real ones.
#pragma once

#include <string_view>

#include "data/hlo/module.h"

namespace reprise {

inline constexpr std::string_view kComplexCall = "complex ";

/// Whether anything in the module is c64 or c128.
bool uses_complex(const Module& module);

/// The same program with a pair of real arrays in place of each complex one, so
/// that kernels, plans, collectives and devices never meet a complex number.
/// Parameters and results of the entry keep their number and bytes: c64[N] is
/// f32[N,2] there (declared_type.h). A transform (`fft`) takes and gives parts:
/// (f32, f32) for a complex result. What has no form in parts becomes a custom
/// call of its name on parts, its target kComplexCall and the opcode or its own
/// target, for lowering to refuse. Requires: the entry is flat (inline_calls).
/// Cost: linear.
Module split_complex(const Module& module);

/// Of an instruction: its name in the text, which has no '/' in names.
std::string_view name_before_split(const Instruction& instruction);

}  // namespace reprise
