// Row-major arrays in memory, walked by routines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "data/hlo/module.h"

namespace reprise {

inline size_t element_bytes(const Shape& shape) {
  return static_cast<size_t>(primitive_type_bits(shape.type)) / 8;
}

/// Elements from one to the next, by dimension.
std::vector<int64_t> element_strides(const Shape& shape);

/// A multi-index that counts through a box in row-major order.
class IndexCounter {
 public:
  explicit IndexCounter(std::span<const int64_t> extents)
      : extents_(extents.begin(), extents.end()), index_(extents.size(), 0) {}

  /// To the next; false after the last, when it stands at the first again.
  bool next() {
    for (size_t d = index_.size(); d-- > 0;) {
      if (++index_[d] < extents_[d]) return true;
      index_[d] = 0;
    }
    return false;
  }
  int64_t operator[](size_t d) const { return index_[d]; }

 private:
  std::vector<int64_t> extents_, index_;
};

/// Dot product of an index and strides.
inline int64_t offset_of(const IndexCounter& index,
                         const std::vector<int64_t>& strides) {
  int64_t offset = 0;
  for (size_t d = 0; d < strides.size(); ++d) offset += index[d] * strides[d];
  return offset;
}

}  // namespace reprise
