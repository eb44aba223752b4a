// The buffers that CUPTI fills with activity records, and their way to the
// writer: CUPTI's threads and the application's ask for empty ones and return
// full ones without a lock; one thread takes the full ones and gives them back
// empty and zeroed.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace reprise::cupti {

class ActivityBuffers {
 public:
  /// About 300 kernels, 64 KiB with our header; CUPTI holds one or more for
  /// each thread. An unforced flush returns a buffer only when all its records
  /// are complete, so a device that is never idle would keep a large one for
  /// ever, and a killed process lose it.
  static constexpr size_t kHeaderBytes = 64;
  static constexpr size_t kBufferBytes = (size_t{64} << 10) - kHeaderBytes;
  /// Beyond them CUPTI drops records, and counts that.
  static constexpr uint32_t kMaximumBuffers = 1024;

  /// A full buffer; `next` is the one completed after it.
  struct Full {
    uint8_t* bytes = nullptr;
    size_t valid_bytes = 0;
    Full* next = nullptr;
  };

  /// An empty, zeroed buffer of kBufferBytes, 8-byte aligned; null when all
  /// are in use.
  uint8_t* request();
  /// Whether `request` gave this buffer. Cost: a look at every buffer made.
  bool owns(const uint8_t* buffer) const;
  /// Hands over a buffer that `request` gave.
  void complete(uint8_t* buffer, size_t valid_bytes);
  /// Takes all full buffers, the one completed first in front.
  Full* take_full();
  /// Gives back a buffer of `take_full`.
  void recycle(Full* full);

 private:
  std::atomic<Full*> full_{nullptr};  ///< The last completed one in front.
  std::array<std::atomic<uint8_t*>, kMaximumBuffers> empty_{};
  std::array<std::atomic<uint8_t*>, kMaximumBuffers> all_{};
  std::atomic<uint32_t> made_{0};
};

}  // namespace reprise::cupti
