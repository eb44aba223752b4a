// How a tensor of a file stands for values of a parameter: in its own type, as
// raw bytes, or, of the integers that no file names, in one byte each.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "data/io/tensor_file.h"

namespace reprise {

/// Why the tensor cannot be values `type[dimensions]`, from ` is ` or ` has `
/// on; "" where it is. Cost: of 4-bit integers linear in it.
std::string tensor_complaint(const TensorEntry& tensor, PrimitiveType type,
                             const std::vector<int64_t>& dimensions);

/// Copies elements from byte `place` on, as a program has them. Requires: no
/// tensor_complaint, and that they lie within.
void copy_elements(const TensorEntry& tensor, PrimitiveType type, size_t place,
                   std::span<std::byte> out);

}  // namespace reprise
