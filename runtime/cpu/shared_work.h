// Which units threads share, and in how many parts.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "data/parallel.h"
#include "data/schedule/schedule.h"

namespace reprise {

/// Below this a unit is never shared. A part's start and end cost a few
/// microseconds where the others are awake, and some tens where they sleep.
inline constexpr double kWorthSharing_ns = 20'000;

/// The team of a rank; a unit may be shared by its estimate, so by the program
/// and plan alone. Whether it stays so, SharingTrial tells.
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

/// Whether a unit that may be shared gains by it: its first runs are timed, in
/// parts and whole by turns. All units of a step take the same turns, so each
/// is timed among others like it. Parts have the bits of the whole, so no
/// result depends on what is found.
class SharingTrial {
 public:
  static constexpr uint32_t kRunsEach = 3;
  /// Sharing takes the time of every core, so it must leave less than this
  /// share of the whole's time.
  static constexpr double kMostOfWhole = 0.8;

  bool is_over() const { return runs_ == 2 * kRunsEach; }
  /// Of the next run, until the trial is over; then of all.
  bool in_parts() const { return is_over() ? gains_ : runs_ % 2 == 0; }
  void add(int64_t time_ns) {
    int64_t& least = least_ns_[runs_ % 2];
    least = std::min(least, time_ns);
    ++runs_;
    gains_ = static_cast<double>(least_ns_[0]) <
             kMostOfWhole * static_cast<double>(least_ns_[1]);
  }

 private:
  uint32_t runs_ = 0;
  bool gains_ = false;
  std::array<int64_t, 2> least_ns_{std::numeric_limits<int64_t>::max(),
                                   std::numeric_limits<int64_t>::max()};
};

}  // namespace reprise
