// A bounded queue of process records: any thread pushes, one thread at a time
// pops. Neither ever waits: pushing into a full ring fails. Its pages are
// reserved at once and touched by their first use, so that a process that
// records little pays little.
//
// Each slot has a turn: 2 * lap when it is free for that lap of the ring, one
// more when it is full. A thread that is stopped between claiming a slot and
// filling it holds back what came after it, and nobody's push.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <bit>
#include <cstdint>
#include <new>
#include <span>

#include "data/trace/process_shard.h"

namespace reprise {

class RecordRing {
 public:
  /// Room for at least `capacity` records; is_valid() is false without memory.
  explicit RecordRing(uint32_t capacity)
      : capacity_(std::bit_ceil(uint64_t{capacity})),
        lap_shift_(std::countr_zero(capacity_)) {
    void* pages =
        ::mmap(nullptr, capacity_ * sizeof(Slot), PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
               0);  // Zeroed: every slot is free for lap 0.
    if (pages == MAP_FAILED) return;
    // A huge page would be zeroed whole, on a thread of the host.
    ::madvise(pages, capacity_ * sizeof(Slot), MADV_NOHUGEPAGE);
    slots_ = static_cast<Slot*>(pages);
  }
  ~RecordRing() {
    if (slots_ != nullptr) ::munmap(slots_, capacity_ * sizeof(Slot));
  }
  RecordRing(const RecordRing&) = delete;
  RecordRing& operator=(const RecordRing&) = delete;

  bool is_valid() const { return slots_ != nullptr; }
  uint64_t capacity() const { return capacity_; }

  /// Returns how many records were ever pushed, this one included; 0 when the
  /// ring is full.
  uint64_t push(const ProcessRecord& record) {
    uint64_t place = head_.load(std::memory_order_relaxed);
    while (true) {
      Slot& slot = slots_[place & (capacity_ - 1)];
      const uint64_t free_turn = 2 * (place >> lap_shift_);
      const uint64_t turn = slot.turn.load(std::memory_order_acquire);
      if (turn == free_turn) {
        if (head_.compare_exchange_weak(place, place + 1,
                                        std::memory_order_relaxed)) {
          slot.record = record;
          slot.turn.store(free_turn + 1, std::memory_order_release);
          return place + 1;
        }
      } else if (turn < free_turn) {
        return 0;
      } else {
        place = head_.load(std::memory_order_relaxed);
      }
    }
  }

  /// Whether `pop` would take nothing. Requires: as `pop`.
  bool is_empty() const {
    const Slot& slot = slots_[tail_ & (capacity_ - 1)];
    return slot.turn.load(std::memory_order_acquire) !=
           2 * (tail_ >> lap_shift_) + 1;
  }
  /// Takes the oldest records, as many as fit; returns how many.
  /// Requires: one caller at a time.
  size_t pop(std::span<ProcessRecord> records) {
    size_t count = 0;
    for (; count < records.size(); ++count, ++tail_) {
      Slot& slot = slots_[tail_ & (capacity_ - 1)];
      const uint64_t full_turn = 2 * (tail_ >> lap_shift_) + 1;
      if (slot.turn.load(std::memory_order_acquire) != full_turn) break;
      records[count] = slot.record;
      slot.turn.store(full_turn + 1, std::memory_order_release);
    }
    return count;
  }

 private:
  struct Slot {
    std::atomic<uint64_t> turn;
    ProcessRecord record;
  };

  uint64_t capacity_ = 0;
  int lap_shift_ = 0;
  Slot* slots_ = nullptr;
  alignas(64) std::atomic<uint64_t> head_{0};
  alignas(64) uint64_t tail_ = 0;
};

}  // namespace reprise
