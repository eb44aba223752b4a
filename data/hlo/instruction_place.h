// What messages call an instruction: its name, what it is in the source, and
// where that stands.
#pragma once

#include <string>
#include <string_view>

#include "data/hlo/module.h"

namespace reprise {

/// A field of `metadata={…}`, such as op_name, unescaped; empty when absent.
std::string metadata_field(const Instruction& instruction,
                           std::string_view field);

/// `step.py:12` where the metadata or, by its stack frame, the tables of the
/// module say it; else empty.
std::string source_line(const Module& module, const Instruction& instruction);

/// `dot.3 ("jit(step)/dot_general", step.py:12)`, as far as it is known.
std::string instruction_place(const Module& module,
                              const Instruction& instruction);

}  // namespace reprise
