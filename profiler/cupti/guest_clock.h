// Times of another tool's records: CUPTI stamps all by our clock, whose change
// under way would leave device times that fit neither (on an H100, CUPTI 13.0,
// Kineto then threw away every kernel that it was given). So the guest's
// records are moved to its clock before it gets them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "profiler/cupti/cupti_library.h"

namespace reprise::cupti {

class GuestClock {
 public:
  /// The guest's clock from now on: any unit, as Kineto's ticks of a processor.
  void set(Timestamp of_guest);

  /// Moves the times of a completed buffer, which lie since `set`, along the
  /// line through what both clocks said then and say now. Times of 0 stay: they
  /// mean none. Kinds that are not in cupti_types.h keep ours. `shift_ns`
  /// added to a record's time gives CLOCK_MONOTONIC.
  void move(const Functions& functions, uint32_t version, int64_t shift_ns,
            uint8_t* buffer, size_t valid_bytes) const;

 private:
  std::atomic<Timestamp> of_guest_{nullptr};
  std::atomic<int64_t> ours_then_ns_{0};
  std::atomic<uint64_t> theirs_then_{0};
};

}  // namespace reprise::cupti
