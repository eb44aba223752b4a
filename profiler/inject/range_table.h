// NVTX start/end ranges that are open: any thread may end what another
// started. Fixed room, no lock.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace reprise::nvtx {

/// What a start/end range is until its end.
struct StartedRange {
  const void* recorder = nullptr;  ///< Whose ids these are.
  int64_t start_ns = 0;
  int64_t thread = 0;
  int64_t step = 0;
  uint32_t name = 0;
  uint32_t info = 0;
};

class RangeTable {
 public:
  static constexpr uint64_t kPlaces = 4096;

  /// The range's id, never 0; `is_kept` is false when its place is taken.
  uint64_t start(const StartedRange& range, bool* is_kept) {
    const uint64_t id = next_.fetch_add(1) + 1;
    Place& place = places_[id % kPlaces];
    uint64_t none = 0;
    *is_kept = place.id.compare_exchange_strong(none, kBusy);
    if (*is_kept) {
      place.range = range;
      place.id.store(id, std::memory_order_release);
    }
    return id;
  }
  /// False when the id is of no open range.
  bool end(uint64_t id, StartedRange* range) {
    Place& place = places_[id % kPlaces];
    uint64_t expected = id;
    if (id == 0 || id == kBusy ||
        !place.id.compare_exchange_strong(expected, kBusy)) {
      return false;
    }
    *range = place.range;
    place.id.store(0, std::memory_order_release);
    return true;
  }

 private:
  static constexpr uint64_t kBusy = UINT64_MAX;
  struct Place {
    std::atomic<uint64_t> id{0};
    StartedRange range;
  };
  std::array<Place, kPlaces> places_{};
  std::atomic<uint64_t> next_{0};
};

}  // namespace reprise::nvtx
