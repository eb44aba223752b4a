// Collectives as steps whose communicating part moves flat bytes.
#pragma once

#include "data/hlo/module.h"

namespace reprise {

/// Appends what a collective does to `to`, in which its operands stand, and
/// returns the value of its result. Collectives of several operands become one
/// each, but all-reduces, which may share a buffer. Where ranks' parts divide
/// another dimension than the outermost, transposes bring it there and back; an
/// all-to-all of several arrays exchanges slices of their concatenation. So
/// devices need only move parts that are one piece of memory. The part that
/// communicates keeps the instruction's name.
///
/// What cannot be taken apart (an all-to-all along an inner dimension among a
/// number of ranks that the text does not tell) is appended as it is, for
/// lowering to refuse.
InstructionId append_flat_collective(const Module& module,
                                     const Instruction& collective,
                                     Computation* to);

/// Whether the parts that ranks exchange are bytes one after the other: the
/// dimension that they divide is the outermost of more than one element.
bool divides_bytes(const Instruction& collective, const Shape& operand);

}  // namespace reprise
