// How far a thread has come, for one other thread to wait on asleep.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>

namespace reprise {

/// A count that one thread raises and another waits for.
class alignas(64) Progress {
 public:
  /// Above any count that is waited for: ends all waits, as after a failure.
  static constexpr uint32_t kAll = std::numeric_limits<uint32_t>::max();

  void reset() { count_.store(0, std::memory_order_relaxed); }
  void tell(uint32_t count) {
    count_.store(count, std::memory_order_release);
    count_.notify_one();
  }
  uint32_t count() const { return count_.load(std::memory_order_acquire); }
  void wait_until(uint32_t count) const {
    for (;;) {
      const uint32_t now = count_.load(std::memory_order_acquire);
      if (now >= count) return;
      count_.wait(now, std::memory_order_acquire);
    }
  }

 private:
  std::atomic<uint32_t> count_{0};
};

}  // namespace reprise
