#include "profiler/nccl/preload_communicators.h"

#include <new>

namespace reprise {

size_t PreloadCommunicators::first_place(void* handle) {
  return stable_hash(&handle, sizeof handle) % kMost;
}

PreloadCommunicator* PreloadCommunicators::find(void* handle) {
  if (handle == nullptr) return nullptr;
  const size_t first = first_place(handle);
  for (size_t i = 0; i < kMost; ++i) {
    PreloadCommunicator* one =
        places_[(first + i) % kMost].load(std::memory_order_acquire);
    if (one == nullptr) return nullptr;
    if (one->handle.load(std::memory_order_acquire) == handle) return one;
  }
  return nullptr;
}

PreloadCommunicator* PreloadCommunicators::add(void* handle, uint64_t hash,
                                               const char* name, int rank,
                                               int ranks) {
  if (handle == nullptr) return nullptr;
  const std::lock_guard lock(mutex_);
  const size_t first = first_place(handle);
  for (size_t i = 0; i < kMost; ++i) {
    std::atomic<PreloadCommunicator*>& place = places_[(first + i) % kMost];
    const PreloadCommunicator* there = place.load(std::memory_order_relaxed);
    if (there != nullptr && there->handle.load() != nullptr) continue;
    // A place that was in use stays so, or later ones could not be found; who
    // still holds the communicator that was here keeps a whole one.
    auto* one = new (std::nothrow) PreloadCommunicator;
    if (one == nullptr) return nullptr;
    one->hash = hash;
    one->name = name == nullptr ? "" : name;
    one->rank = rank;
    one->ranks = ranks;
    one->handle = handle;
    place.store(one, std::memory_order_release);
    return one;
  }
  return nullptr;
}

void PreloadCommunicators::remove(void* handle) {
  const std::lock_guard lock(mutex_);
  if (PreloadCommunicator* one = find(handle)) one->handle = nullptr;
}

uint64_t stable_hash(const void* bytes, size_t size, uint64_t seed) {
  uint64_t hash = 0xcbf29ce484222325 ^ seed;
  const auto* byte = static_cast<const unsigned char*>(bytes);
  for (size_t i = 0; i < size; ++i) hash = (hash ^ byte[i]) * 0x100000001b3;
  return hash;
}

}  // namespace reprise
