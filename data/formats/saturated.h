// Sums and differences of times and sizes out of files, which may be anything:
// at the ends of the range they stay there.
#pragma once

#include <cstdint>
#include <limits>

namespace reprise {

constexpr int64_t saturated_sum(int64_t a, int64_t b) {
  int64_t sum = 0;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  return a < 0 ? std::numeric_limits<int64_t>::min()
               : std::numeric_limits<int64_t>::max();
}

constexpr int64_t saturated_difference(int64_t a, int64_t b) {
  int64_t difference = 0;
  if (!__builtin_sub_overflow(a, b, &difference)) return difference;
  return a < b ? std::numeric_limits<int64_t>::min()
               : std::numeric_limits<int64_t>::max();
}

}  // namespace reprise
