// Places are counted, not timed: the watching thread sees whether a count has
// moved since it looked last, which costs the watched ones two stores a unit.
#include "runtime/cuda/device_watch.h"

#include <chrono>
#include <utility>

namespace reprise {
namespace {

/// Looks within one limit: a place is held to be stuck between 1 and 1.25
/// times the limit after it was entered.
constexpr int kLooks = 4;

}  // namespace

DeviceWatch::DeviceWatch(double seconds,
                         std::function<void(const Place&)> expired)
    : thread_([this, seconds, expired = std::move(expired)] {
        watch(seconds, expired);
      }) {}

DeviceWatch::~DeviceWatch() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void DeviceWatch::mark(Thread thread, const char* call, int32_t step,
                       uint32_t unit) {
  Slot& slot = slots_[thread];
  slot.call.store(call, std::memory_order_relaxed);
  slot.step.store(step, std::memory_order_relaxed);
  slot.unit.store(unit, std::memory_order_relaxed);
  // Only this thread writes it. Odd: inside, and in a new place.
  const uint64_t entries = slot.entries.load(std::memory_order_relaxed);
  slot.entries.store((entries | 1) + (entries % 2 == 0 ? 0 : 2),
                     std::memory_order_release);
}

void DeviceWatch::leave(Thread thread) {
  std::atomic<uint64_t>& entries = slots_[thread].entries;
  const uint64_t now = entries.load(std::memory_order_relaxed);
  if (now % 2 == 1) entries.store(now + 1, std::memory_order_release);
}

void DeviceWatch::watch(double seconds,
                        const std::function<void(const Place&)>& expired) {
  std::array<uint64_t, 2> seen{};
  std::array<int, 2> looks{};
  const std::chrono::duration<double> period(seconds / kLooks);
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, period, [this] { return ended_; })) {
    for (size_t i = 0; i < slots_.size(); ++i) {
      const Slot& slot = slots_[i];
      const uint64_t entries = slot.entries.load(std::memory_order_acquire);
      const bool same = entries % 2 == 1 && entries == seen[i];
      looks[i] = same ? looks[i] + 1 : 0;
      seen[i] = entries;
      if (looks[i] <= kLooks) continue;
      return expired({.call = slot.call.load(std::memory_order_relaxed),
                      .step = slot.step.load(std::memory_order_relaxed),
                      .unit = slot.unit.load(std::memory_order_relaxed),
                      .seconds = seconds});
    }
  }
}

}  // namespace reprise
