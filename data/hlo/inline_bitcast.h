// A bitcast by what it does to elements, not to bytes.
#pragma once

#include <vector>

#include "data/hlo/module.h"

namespace reprise {

/// Whether it is more than a reshape of a row-major array, and the steps below
/// can say what: of arrays of as many bytes, with layouts of their dimensions.
bool moves_elements(const Instruction& bitcast, const Shape& operand);

/// The steps that a bitcast of one operand stands for, where arrays are
/// row-major whatever their layouts say: a transpose to the order in which the
/// operand lies in memory, a change of the element type, a reshape, and a
/// transpose from the result's order. Each takes the one before, the first the
/// operand; the last has the bitcast's name. What is not needed is left out.
/// Requires: moves_elements.
std::vector<Instruction> bitcast_steps(const Instruction& bitcast,
                                       const Shape& operand);

}  // namespace reprise
