#include "runtime/cpu/array_view.h"

namespace reprise {

std::vector<int64_t> element_strides(const Shape& shape) {
  std::vector<int64_t> strides(shape.dimensions.size(), 1);
  for (size_t d = strides.size(); d-- > 1;)
    strides[d - 1] = strides[d] * shape.dimensions[d];
  return strides;
}

}  // namespace reprise
