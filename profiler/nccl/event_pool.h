// A fixed number of NCCL events, begun and ended by NCCL's threads without
// locks or allocation, and taken by one drainer once they have ended.
//
// A handle names an event for ever: its number, which never returns, and its
// place. So a handle that has ended, or that another process made, is told
// from a live one without touching anything it points to; NCCL stops some
// twice.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "profiler/nccl/profiler_abi.h"

namespace reprise {

/// What the plugin was told of one communicator; lives as long as the process.
struct NcclCommunicatorInfo;

/// Stamps of the waits within a proxy step, in order of time.
struct NcclWait {
  int64_t start_ns = 0;
  int32_t state = 0;  ///< NcclEventState; 0: none.
};

/// One event. Between `begin` and `end` its fields belong to NCCL's thread,
/// then to the drainer. Ids are numbers of events; 0: none.
struct NcclEvent {
  NcclEventType type{};
  const NcclCommunicatorInfo* communicator = nullptr;
  uint64_t id = 0;      ///< Its own number.
  uint64_t call = 0;    ///< The collective or point-to-point it belongs to.
  uint64_t group = 0;   ///< The kernel's group it was launched with.
  uint64_t api = 0;     ///< The call of the host program.
  uint64_t parent = 0;  ///< Handle.
  int64_t start_ns = 0, end_ns = 0;  ///< CLOCK_MONOTONIC.
  int64_t thread = 0;
  int64_t sequence = -1;
  uint64_t count = 0;
  uint64_t stream = 0;  ///< Address of a stream of the host program.
  int32_t peer = -1;    ///< Or the root.
  int32_t channel = -1;
  int32_t channels = -1, warps = -1;
  int32_t steps = 0, chunk_bytes = 0;
  int32_t process = 0;  ///< Of a parent in another process; 0: this one.
  bool is_send = false, is_captured = false;
  bool is_outside_window = false;  ///< When it began.
  bool has_kept_calls = false;     ///< A group of which calls are recorded.
  uint64_t device_start_ns = 0, device_end_ns = 0;
  int64_t transferred_bytes = 0;
  std::array<NcclWait, 4> waits{};
  std::array<char, 20> function{}, data_type{}, algorithm{}, protocol{};
};

class NcclEventPool {
 public:
  static constexpr unsigned kPlaceBits = 14;
  static constexpr uint32_t kPlaces = 1u << kPlaceBits;  ///< 5.5 MiB.

  /// is_valid() is false without memory.
  NcclEventPool();
  NcclEventPool(const NcclEventPool&) = delete;
  NcclEventPool& operator=(const NcclEventPool&) = delete;
  bool is_valid() const { return places_ != nullptr; }

  /// A cleared event, its `id` set, or null when all are in use; `handle` is
  /// how to find it.
  NcclEvent* begin(void** handle);
  /// The event if it is live, else null.
  NcclEvent* find(void* handle);
  /// As `find`, and the event is live no more: of several callers one gets it,
  /// who may still write to it and then hands it to the drainer.
  NcclEvent* end(void* handle);
  void hand_over(NcclEvent* event);

  /// Calls `take(const NcclEvent&)` for all that was handed over, first ones
  /// first, and frees their places. One thread at a time.
  template <typename Take>
  void drain(Take&& take) {
    for (uint32_t place = reversed_finished(); place != kNone;) {
      const uint32_t next = places_[place].next.load(std::memory_order_relaxed);
      take(std::as_const(places_[place].event));
      free_place(place);
      place = next;
    }
  }

  /// Events that have begun and not ended.
  uint64_t count_live() const;

  /// The number in a handle, also in that of an ended event or of another
  /// process; 0 for null.
  static uint64_t id_of(void* handle) {
    return reinterpret_cast<uint64_t>(handle) >> kPlaceBits;
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Place {
    std::atomic<uint64_t> live_id{0};  ///< 0: no live event here.
    std::atomic<uint32_t> next{kNone};
    NcclEvent event;
  };
  Place* place_of(void* handle);
  uint32_t take_free();
  void free_place(uint32_t place);
  uint32_t reversed_finished();

  std::unique_ptr<Place[]> places_;
  /// Top of a stack: a count of its changes above the place, so that a place
  /// that left and came back is not mistaken for one that stayed.
  alignas(64) std::atomic<uint64_t> free_{0};
  alignas(64) std::atomic<uint32_t> finished_{kNone};
  alignas(64) std::atomic<uint64_t> last_id_{0};
};

}  // namespace reprise
