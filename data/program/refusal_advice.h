// What to do about an instruction that does not run.
#pragma once

#include <string>

#include "data/hlo/module.h"

namespace reprise {

/// One clause for the user, by opcode, type and, of custom calls, target; empty
/// where there is nothing better than to leave the instruction out.
std::string refusal_advice(const Instruction& instruction);

}  // namespace reprise
