// Matrices of a test in memory, in any order of their dimensions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/cpu/dot.h"

namespace reprise {

/// Row-major strides of `dimensions` after they are laid out in the order
/// `memory` (outermost first).
inline MatrixView view(const std::vector<int64_t>& dimensions,
                       const std::vector<size_t>& memory) {
  MatrixView result;
  result.dimensions = dimensions;
  result.strides.resize(dimensions.size());
  int64_t stride = 1;
  for (size_t i = memory.size(); i-- > 0;) {
    result.strides[memory[i]] = stride;
    stride *= dimensions[memory[i]];
  }
  return result;
}

/// Place of an element, batches counted row-major.
inline int64_t offset(const MatrixView& view, int64_t batch, int64_t row,
                      int64_t column) {
  const size_t n = view.dimensions.size();
  int64_t at = row * view.strides[n - 2] + column * view.strides[n - 1];
  for (size_t i = n - 2; i-- > 0;) {
    at += batch % view.dimensions[i] * view.strides[i];
    batch /= view.dimensions[i];
  }
  return at;
}

}  // namespace reprise
