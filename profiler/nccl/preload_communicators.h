// The communicators that the interposer has seen made, by NCCL's handle.
// Looking one up takes no lock; a handle that NCCL gives out again after its
// communicator was destroyed is another communicator.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

#include "profiler/nccl/event_writer.h"

namespace reprise {

/// One communicator; never freed.
struct PreloadCommunicator {
  std::atomic<void*> handle{nullptr};  ///< Null once it was destroyed.
  uint64_t hash = 0;
  std::string name;
  std::atomic<int> rank{-1}, ranks{-1};  ///< -1: not asked yet.
  std::atomic<int64_t> collectives{0};   ///< Enqueued so far.
  std::atomic<uint64_t> children{0};     ///< Splits and shrinks so far.
};

class PreloadCommunicators {
 public:
  /// More live ones than that are not recorded.
  static constexpr size_t kMost = 4096;

  /// Null when it is unknown.
  PreloadCommunicator* find(void* handle);
  /// Registers what NCCL has just made. Null when there is no room.
  PreloadCommunicator* add(void* handle, uint64_t hash, const char* name,
                           int rank, int ranks);
  void remove(void* handle);

 private:
  static size_t first_place(void* handle);

  std::array<std::atomic<PreloadCommunicator*>, kMost> places_{};
  std::mutex mutex_;  ///< Of changes.
};

/// A hash of bytes that is the same in every process (FNV-1a).
uint64_t stable_hash(const void* bytes, size_t size, uint64_t seed = 0);

}  // namespace reprise
