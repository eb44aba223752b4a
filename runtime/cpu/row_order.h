// The order of a row's elements by keys.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "data/primitive_type.h"

namespace reprise {

/// Places of a row, at most 2^32, by key; of equal keys the earlier first.
/// Integers and pred are ordered as numbers, floats of at least 16 bits as XLA
/// does, by their bits, so that -0 is less than 0 and NaN stands at the ends.
/// Keys of 32 bits are sorted as one number with their places.
class RowOrder {
 public:
  struct Options {
    bool is_descending = false;
    /// Of floats: as sorts_by_partial_order, denormals being zeros.
    bool is_partial = false;
  };
  RowOrder(size_t count, PrimitiveType key, const Options& options);

  /// `keys`: of all places, one after the other. False where a partial order
  /// does not place one: NaN.
  bool set_keys(const std::byte* keys);
  /// Puts the first `first` in order; the others are lost where they are many
  /// more. Cost: then one comparison of each, vectors of them at once, and in
  /// random order some `first` log(count / first) that are kept for a while; at
  /// worst, each less than all before, all are.
  void sort(size_t first);
  /// Which place came to be number `i` of those in order.
  uint32_t operator[](size_t i) const {
    return is_narrow_ ? static_cast<uint32_t>(narrow_[i]) : wide_[i].second;
  }

 private:
  template <typename Bits>
  bool set_keys_of(const std::byte* keys);

  PrimitiveType key_;
  uint64_t turned_;  ///< Bits of a key that are turned for a descending order.
  bool is_partial_;
  /// If partial: keys of -inf, 0, inf, and how far from 0 the next ones are.
  uint64_t least_ = 0, zero_ = 0, most_ = 0, from_zero_ = 0;
  bool is_narrow_;
  std::vector<uint64_t> narrow_;  ///< Key above place.
  std::vector<std::pair<uint64_t, uint32_t>> wide_;
};

}  // namespace reprise
