// A watch over calls of the NVIDIA driver, any of which may block behind work
// that never ends: one that launches, since the queue of a device has an end,
// as much as one that waits.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace reprise {

/// Looks a few times within the limit at what two threads are in, and calls
/// `expired` once, on a thread of its own, when one has been in the same place
/// for longer. Nothing can end such a call, so `expired` says so and ends the
/// process.
class DeviceWatch {
 public:
  /// Where a thread is: a unit of a step, or what else the text says.
  struct Place {
    const char* call = nullptr;  ///< A literal; null: in a unit.
    int32_t step = -1;
    uint32_t unit = 0;
    double seconds = 0;  ///< For so long, and more.
  };
  enum Thread : size_t { kIssuing = 0, kCommunicating = 1 };

  /// A thread's time in one place; `watch` may be null. One that visits while
  /// it visits moves on, and is outside once the inner visit ends.
  class Visit {
   public:
    Visit(DeviceWatch* watch, Thread thread, const char* call, int32_t step)
        : watch_(watch), thread_(thread) {
      if (watch_ != nullptr) watch_->mark(thread, call, step, 0);
    }
    Visit(DeviceWatch* watch, Thread thread, int32_t step, uint32_t unit)
        : watch_(watch), thread_(thread) {
      if (watch_ != nullptr) watch_->mark(thread, nullptr, step, unit);
    }
    ~Visit() {
      if (watch_ != nullptr) watch_->leave(thread_);
    }
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;

   private:
    DeviceWatch* watch_;
    Thread thread_;
  };

  DeviceWatch(double seconds, std::function<void(const Place&)> expired);
  ~DeviceWatch();
  DeviceWatch(const DeviceWatch&) = delete;
  DeviceWatch& operator=(const DeviceWatch&) = delete;

 private:
  struct alignas(64) Slot {
    std::atomic<uint64_t> entries{0};  ///< Even: outside.
    std::atomic<const char*> call{nullptr};
    std::atomic<int32_t> step{-1};
    std::atomic<uint32_t> unit{0};
  };
  void watch(double seconds, const std::function<void(const Place&)>& expired);
  /// No locks, no system calls.
  void mark(Thread thread, const char* call, int32_t step, uint32_t unit);
  void leave(Thread thread);

  std::array<Slot, 2> slots_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace reprise
