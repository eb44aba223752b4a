// Which units threads share, and in how many parts.
#pragma once

#include <algorithm>
#include <cstddef>

#include "data/parallel.h"
#include "data/schedule/schedule.h"

namespace reprise {

/// Below this a unit is not shared. A part's start and end cost a few
/// microseconds where the others are awake, and some tens where they sleep.
inline constexpr double kWorthSharing_ns = 20'000;

/// The team of a rank; a unit is shared by its estimate, so by the program and
/// plan alone.
struct SharedWork {
  ThreadTeam* team = nullptr;  ///< Null: one thread.
  double worth_sharing_ns = kWorthSharing_ns;

  /// In how many parts, at most `most`, the unit runs; 1: whole.
  size_t parts(const Unit& unit, size_t most) const {
    if (team == nullptr || estimate_ns(unit) < worth_sharing_ns) return 1;
    return std::clamp<size_t>(most, 1, team->size());
  }

  /// Of one core, to an order of magnitude: memory at 10 bytes a nanosecond,
  /// dots at 50 flops, kernels at 2 (what a core with AVX2 does at least).
  static double estimate_ns(const Unit& unit) {
    constexpr double kBytesPerNs = 10, kDotFlopsPerNs = 50,
                     kKernelFlopsPerNs = 2;
    return std::max(
        unit.bytes / kBytesPerNs,
        unit.flops / (unit.kind == UnitKind::kLibrary ? kDotFlopsPerNs
                                                      : kKernelFlopsPerNs));
  }
};

}  // namespace reprise
