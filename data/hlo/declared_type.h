// What the text of a program calls a parameter or the result of its entry that
// runs in another form: complex numbers as pairs of their parts
// (split_complex.h), floats of 8 bits and integers of 4 as bytes
// (narrow_types.h). Marks on the parameters and on the root say so.
#pragma once

#include "data/hlo/module.h"

namespace reprise {

/// Marks a parameter or the root, in the form that it runs in, as of the types
/// of `shape` in the text.
void declare_type(const Shape& shape, Instruction* border);

/// A parameter's type in the text; its own where it runs as it was written, and
/// where the mark, which a text may hold as well, contradicts the shape.
PrimitiveType declared_type(const Instruction& parameter);

/// What files, initial values and losses are checked against: a parameter's or
/// the root's shape, of narrow types with the text's, of complex numbers as
/// pairs.
Shape declared_elements(const Instruction& border);

}  // namespace reprise
