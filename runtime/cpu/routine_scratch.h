// Memory that routines need while they run: copies in a library's layout,
// patches, a library's own scratch. They run one after the other, so one block,
// as large as the largest needs, serves all routines of an executor.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>

#include "data/result.h"
#include "runtime/cpu/arena.h"

namespace reprise {

class RoutineScratch {
 public:
  /// Of parts of a routine's block, in bytes: a cache line, as wide as vectors.
  static constexpr size_t kAlignment = 64;
  static constexpr size_t aligned(size_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }

  /// While units are bound: what one routine needs.
  void reserve(size_t bytes) { size_bytes_ = std::max(size_bytes_, bytes); }
  /// Once all are bound. Errors: kDevice when the system has not that much.
  Status allocate();

  /// The block; null before `allocate`. It holds what the routine before left.
  std::byte* data() const { return memory_ ? memory_->data() : nullptr; }
  size_t size_bytes() const { return size_bytes_; }

 private:
  size_t size_bytes_ = 0;
  std::optional<Arena> memory_;
};

}  // namespace reprise
