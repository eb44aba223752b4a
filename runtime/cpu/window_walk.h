// The windows of reduce-windows and select-and-scatters over an array in
// memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "data/hlo/window.h"
#include "runtime/cpu/array_view.h"

namespace reprise {

/// Which element of the operand each position of a window names.
class WindowWalk {
 public:
  /// `result`: the array whose indices windows belong to.
  WindowWalk(std::vector<WindowDimension> window, const Shape& operand,
             const Shape& result)
      : window_(std::move(window)),
        extents_(operand.dimensions),
        strides_(element_strides(operand)),
        last_(last_dimension(operand, result)) {
    if (stays_inside(operand, result)) inner_ = result.dimensions[last_];
  }

  /// Calls `visit` with the place of every element in the window at `index`, in
  /// row-major order.
  template <typename Visit>
  void each(const IndexCounter& index, const Visit& visit) const {
    descend(index, 0, 0, visit);
  }

  /// In one dimension; -1: outside, or a hole.
  int64_t place(size_t d, int64_t index, int64_t tap) const {
    const int64_t element = element_at(window_[d], extents_[d], index, tap);
    return element < 0 ? -1 : element * strides_[d];
  }

  /// Of each tap's element from the first tap's, where both are inside; none
  /// where holes are between elements.
  std::vector<int64_t> tap_offsets() const {
    std::vector<int64_t> taps, offsets;
    for (const WindowDimension& one : window_) {
      if (one.base_dilation != 1) return {};
      taps.push_back(one.size);
    }
    IndexCounter tap(taps);
    do {
      int64_t offset = 0;
      for (size_t d = 0; d < taps.size(); ++d)
        offset += tap[d] * window_[d].window_dilation * strides_[d];
      offsets.push_back(offset);
    } while (tap.next());
    return offsets;
  }

  /// Windows side by side along the last dimension that all have their taps, an
  /// `inner_stride` apart: 1, or all of it.
  int64_t inner() const { return inner_; }
  int64_t inner_stride() const {
    return inner_ > 1 ? window_[last_].stride : 1;
  }
  /// That dimension: behind it there is but one element.
  size_t last() const { return last_; }
  const std::vector<WindowDimension>& window() const { return window_; }

 private:
  /// Of one dimension; -1: outside, or a hole.
  static int64_t element_at(const WindowDimension& dimension, int64_t extent,
                            int64_t index, int64_t tap) {
    const int64_t at = index * dimension.stride +
                       tap * dimension.window_dilation - dimension.padding_low;
    if (dimension.base_dilation == 1) return at < extent ? at : -1;
    if (at < 0 || at % dimension.base_dilation != 0) return -1;
    const int64_t element = at / dimension.base_dilation;
    return element < extent ? element : -1;
  }

  static size_t last_dimension(const Shape& operand, const Shape& result) {
    size_t last = operand.dimensions.size();
    while (last > 1 && operand.dimensions[last - 1] == 1 &&
           result.dimensions[last - 1] == 1)
      --last;
    return last > 0 ? last - 1 : 0;
  }

  /// Whether no window reaches outside along the last dimensions.
  bool stays_inside(const Shape& operand, const Shape& result) const {
    for (size_t d = last_; d < window_.size(); ++d) {
      const WindowDimension& one = window_[d];
      const int64_t most = (result.dimensions[d] - 1) * one.stride +
                           (one.size - 1) * one.window_dilation;
      if (result.dimensions[d] == 0 || one.padding_low != 0 ||
          one.base_dilation != 1 || most >= operand.dimensions[d])
        return false;
    }
    return !window_.empty();
  }

  template <typename Visit>
  void descend(const IndexCounter& index, size_t d, int64_t place,
               const Visit& visit) const {
    if (d == window_.size()) {
      visit(place);
      return;
    }
    const int64_t taps = window_[d].size;
    for (int64_t tap = 0; tap < taps; ++tap) {
      const int64_t element =
          element_at(window_[d], extents_[d], index[d], tap);
      if (element >= 0)
        descend(index, d + 1, place + element * strides_[d], visit);
    }
  }

  std::vector<WindowDimension> window_;
  std::vector<int64_t> extents_, strides_;
  size_t last_;
  int64_t inner_ = 1;
};

}  // namespace reprise
