// One array element of any real type as a double, and back: how initial values
// are written and how state of any type is compared.
#pragma once

#include <cstddef>

#include "data/primitive_type.h"

namespace reprise {

/// Whether elements of the type are whole bytes that a double stands for: pred,
/// integers of 8 bits and more, f16, bf16, f32, f64.
bool has_plain_elements(PrimitiveType type);
/// f16, bf16, f32 or f64.
bool is_plain_float(PrimitiveType type);

/// Writes `value` as one element: floats rounded to nearest even, integers
/// toward zero and at their limits, pred as whether it is not 0.
/// Requires: has_plain_elements(type), or a narrow_type, one byte an element.
void store_element(PrimitiveType type, double value, std::byte* out);

/// The element as a double; integers beyond 2^53 are rounded.
/// Requires: as store_element.
double load_element(PrimitiveType type, const std::byte* element);

}  // namespace reprise
