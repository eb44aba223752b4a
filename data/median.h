// The middle one of some values.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace reprise {

/// The value that `place` of the others precede when sorted. Requires:
/// place < size.
template <typename Value>
Value value_at(std::vector<Value> values, size_t place) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(place);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Of two in the middle, the upper one; 0 of no values. Cost: O(size).
template <typename Value>
Value median(std::vector<Value> values) {
  if (values.empty()) return {};
  const size_t middle = values.size() / 2;
  return value_at(std::move(values), middle);
}

/// Of two in the middle, the lower one; 0 of no values. Cost: O(size).
template <typename Value>
Value lower_median(std::vector<Value> values) {
  if (values.empty()) return {};
  const size_t middle = (values.size() - 1) / 2;
  return value_at(std::move(values), middle);
}

}  // namespace reprise
