// Two stacks of places linked by index, both lock-free: free ones, whose top
// carries a counter that changes with every push and pop (against the ABA
// problem: Treiber's stack with a tag), and ended ones, which the drainer takes
// whole by one exchange. An event is live while its place holds its number;
// ending is one compare-and-swap from the number to 0, so that only one thread
// ends it.
#include "profiler/nccl/event_pool.h"

#include <bit>
#include <new>

namespace reprise {

NcclEventPool::NcclEventPool() : places_(new (std::nothrow) Place[kPlaces]) {
  if (!places_) return;
  for (uint32_t place = 0; place + 1 < kPlaces; ++place) {
    places_[place].next.store(place + 1, std::memory_order_relaxed);
  }
}

uint32_t NcclEventPool::take_free() {
  uint64_t top = free_.load(std::memory_order_acquire);
  for (;;) {
    const uint32_t place = static_cast<uint32_t>(top);
    if (place == kNone) return kNone;
    const uint64_t next = places_[place].next.load(std::memory_order_relaxed);
    const uint64_t changed = ((top >> 32) + 1) << 32 | next;
    if (free_.compare_exchange_weak(top, changed, std::memory_order_acquire)) {
      return place;
    }
  }
}

void NcclEventPool::free_place(uint32_t place) {
  uint64_t top = free_.load(std::memory_order_relaxed);
  for (;;) {
    places_[place].next.store(static_cast<uint32_t>(top),
                              std::memory_order_relaxed);
    const uint64_t changed = ((top >> 32) + 1) << 32 | place;
    if (free_.compare_exchange_weak(top, changed, std::memory_order_release,
                                    std::memory_order_relaxed)) {
      return;
    }
  }
}

NcclEvent* NcclEventPool::begin(void** handle) {
  *handle = nullptr;
  const uint32_t place = take_free();
  if (place == kNone) return nullptr;
  const uint64_t id = last_id_.fetch_add(1, std::memory_order_relaxed) + 1;
  places_[place].event = NcclEvent{};
  places_[place].event.id = id;
  places_[place].live_id.store(id, std::memory_order_release);
  *handle = std::bit_cast<void*>(id << kPlaceBits | place);
  return &places_[place].event;
}

NcclEventPool::Place* NcclEventPool::place_of(void* handle) {
  const uint64_t value = reinterpret_cast<uint64_t>(handle);
  return id_of(handle) == 0 ? nullptr : &places_[value & (kPlaces - 1)];
}

NcclEvent* NcclEventPool::find(void* handle) {
  Place* place = place_of(handle);
  if (place == nullptr) return nullptr;
  const uint64_t live = place->live_id.load(std::memory_order_acquire);
  return live == id_of(handle) ? &place->event : nullptr;
}

NcclEvent* NcclEventPool::end(void* handle) {
  Place* place = place_of(handle);
  if (place == nullptr) return nullptr;
  uint64_t live = id_of(handle);
  const bool ended = place->live_id.compare_exchange_strong(
      live, 0, std::memory_order_acq_rel);
  return ended ? &place->event : nullptr;
}

void NcclEventPool::hand_over(NcclEvent* event) {
  // The event's place follows from its address.
  const auto offset = reinterpret_cast<const char*>(event) -
                      reinterpret_cast<const char*>(&places_[0].event);
  const auto place =
      static_cast<uint32_t>(static_cast<size_t>(offset) / sizeof(Place));
  uint32_t top = finished_.load(std::memory_order_relaxed);
  do {
    places_[place].next.store(top, std::memory_order_relaxed);
  } while (!finished_.compare_exchange_weak(
      top, place, std::memory_order_release, std::memory_order_relaxed));
}

// The stack of ended events is taken whole, so nobody else changes its links.
uint32_t NcclEventPool::reversed_finished() {
  uint32_t place = finished_.exchange(kNone, std::memory_order_acquire);
  uint32_t first = kNone;
  while (place != kNone) {
    const uint32_t next = places_[place].next.load(std::memory_order_relaxed);
    places_[place].next.store(first, std::memory_order_relaxed);
    first = place;
    place = next;
  }
  return first;
}

uint64_t NcclEventPool::count_live() const {
  uint64_t count = 0;
  for (uint32_t place = 0; place < kPlaces; ++place) {
    count += places_[place].live_id.load(std::memory_order_relaxed) != 0;
  }
  return count;
}

}  // namespace reprise
