// Another tool that takes CUPTI's activity records in the same process, as
// PyTorch's profiler (Kineto) does: CUPTI has one pair of buffer callbacks, and
// who registers last gets all. Ours stay registered and send each buffer to who
// gave it. While the guest records that is the guest, whose records ours keeps
// a copy of, so that both traces are whole. Its clock would be the process's,
// too: see guest_clock.h.
//
// Order of Kineto's calls (libkineto/src/CuptiActivityApi.cpp): register the
// clock and the callbacks, enable kinds; then disable them, flush by force.
// Until its commit 666f62c3 (April 2026) it threw away all that it had where no
// buffer of its was with CUPTI when it stopped, so ours flushes none of them.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>

#include "profiler/cupti/cupti_types.h"

namespace reprise::cupti {

class BufferGuest {
 public:
  /// The guest starts to record: buffers are asked of it from now on.
  void begin(RequestBuffer on_request, CompleteBuffer on_complete);
  void enable(uint32_t kind);
  /// True when this was the last kind: the guest has stopped to record.
  bool disable(uint32_t kind);

  /// Lock-free. A buffer of the guest's; null when it does not record.
  uint8_t* request(size_t* size, size_t* most_records);
  /// Lock-free. A buffer that is not ours.
  void complete(void* context, uint32_t stream, uint8_t* buffer, size_t size,
                size_t valid_size);
  bool was_here() const { return complete_.load() != nullptr; }
  /// Its buffers are, or may soon be, with CUPTI: when they come back is for it
  /// to say.
  bool is_recording() const {
    return is_active_.load() || with_cupti_.load() > 0;
  }
  /// "libtorch_cpu.so recorded device work itself 2 times, 130 ms in all: …".
  std::string describe() const;

 private:
  std::atomic<bool> is_active_{false};
  std::atomic<int> with_cupti_{0};  ///< Buffers.
  std::atomic<RequestBuffer> request_{nullptr};
  std::atomic<CompleteBuffer> complete_{nullptr};
  mutable std::mutex mutex_;  ///< Of what follows.
  std::set<uint32_t> kinds_;
  int64_t since_ns_ = 0, total_ns_ = 0;
  int periods_ = 0;
};

}  // namespace reprise::cupti
