// Full buffers hang in a lock-free list, newest first, that the writer takes
// whole and turns around; empty ones wait in a few atomic places. A buffer is
// zeroed only where it was written, since CUPTI wants zeroes and a page that
// was never touched is one.
#include "profiler/cupti/activity_buffers.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace reprise::cupti {
namespace {

constexpr size_t kHeaderBytes = ActivityBuffers::kHeaderBytes;

/// A buffer's `Full` lies before its bytes.
static_assert(sizeof(ActivityBuffers::Full) <= kHeaderBytes);

ActivityBuffers::Full* header_of(uint8_t* buffer) {
  return reinterpret_cast<ActivityBuffers::Full*>(buffer - kHeaderBytes);
}

}  // namespace

uint8_t* ActivityBuffers::request() {
  for (std::atomic<uint8_t*>& place : empty_) {
    if (place.load(std::memory_order_relaxed) == nullptr) continue;
    uint8_t* buffer = place.exchange(nullptr, std::memory_order_acquire);
    if (buffer != nullptr) return buffer;
  }
  if (made_.fetch_add(1) >= kMaximumBuffers) {
    made_.fetch_sub(1);
    return nullptr;
  }
  void* pages =
      ::mmap(nullptr, kHeaderBytes + kBufferBytes, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) {
    made_.fetch_sub(1);
    return nullptr;
  }
  uint8_t* buffer = static_cast<uint8_t*>(pages) + kHeaderBytes;
  new (header_of(buffer)) Full{.bytes = buffer};
  for (std::atomic<uint8_t*>& place : all_) {
    uint8_t* none = nullptr;
    if (place.compare_exchange_strong(none, buffer)) break;
  }
  return buffer;
}

bool ActivityBuffers::owns(const uint8_t* buffer) const {
  for (const std::atomic<uint8_t*>& place : all_) {
    const uint8_t* made = place.load();
    if (made == nullptr || made == buffer) return made != nullptr;
  }
  return false;
}

void ActivityBuffers::complete(uint8_t* buffer, size_t valid_bytes) {
  if (buffer == nullptr) return;
  Full* full = header_of(buffer);
  full->valid_bytes = std::min(valid_bytes, kBufferBytes);
  full->next = full_.load(std::memory_order_relaxed);
  while (!full_.compare_exchange_weak(full->next, full,
                                      std::memory_order_release)) {
  }
}

ActivityBuffers::Full* ActivityBuffers::take_full() {
  Full* newest = full_.exchange(nullptr, std::memory_order_acquire);
  Full* oldest = nullptr;
  while (newest != nullptr) {
    Full* before = newest->next;
    newest->next = oldest;
    oldest = newest;
    newest = before;
  }
  return oldest;
}

void ActivityBuffers::recycle(Full* full) {
  uint8_t* buffer = full->bytes;
  std::memset(buffer, 0, full->valid_bytes);
  for (std::atomic<uint8_t*>& place : empty_) {
    uint8_t* none = nullptr;
    if (place.compare_exchange_strong(none, buffer,
                                      std::memory_order_release)) {
      return;
    }
  }
}

}  // namespace reprise::cupti
