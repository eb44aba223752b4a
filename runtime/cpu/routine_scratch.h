// Memory that routines need while they run: copies in a library's layout,
// patches, a library's own scratch. Each lies in arena bytes that are idle
// while its routine runs. Those that find too few share one block beside the
// arena, as large as the largest needs, since routines run one after the other.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include "data/result.h"
#include "data/schedule/schedule.h"
#include "runtime/cpu/arena.h"

namespace reprise {

/// One unit's.
class RoutineScratch {
 public:
  /// Of parts of a routine's block, in bytes: a cache line, as wide as vectors.
  static constexpr size_t kAlignment = 64;
  static constexpr size_t aligned(size_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }

  /// While the unit is bound: what its routine, or one inside it, needs.
  void reserve(size_t bytes) { size_bytes_ = std::max(size_bytes_, bytes); }
  /// Once all are bound.
  void place(std::byte* block) { data_ = block; }

  /// The block; null before `place`. It holds what the routine before left.
  std::byte* data() const { return data_; }
  size_t size_bytes() const { return size_bytes_; }

 private:
  size_t size_bytes_ = 0;
  std::byte* data_ = nullptr;
};

/// All computing units' of a schedule.
class ScratchMemory {
 public:
  explicit ScratchMemory(size_t units) : units_(units) {}

  RoutineScratch* of(size_t place) { return &units_[place]; }
  /// Gives all their bytes. Errors: kDevice when the system has not that much.
  Status allocate(const Schedule& schedule, std::byte* arena);
  /// Beside the arena.
  size_t size_bytes() const { return size_bytes_; }

 private:
  std::vector<RoutineScratch> units_;
  size_t size_bytes_ = 0;
  std::optional<Arena> memory_;
};

}  // namespace reprise
