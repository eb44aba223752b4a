// The earliest of some event times: a tournament tree over slots.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace reprise {

class EarliestEvent {
 public:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

  explicit EarliestEvent(size_t slots) { grow(slots); }

  /// Keeps what is set.
  void grow(size_t slots) {
    const size_t before = leaves_;
    while (leaves_ < slots) leaves_ *= 2;
    if (leaves_ == before && !times_.empty()) return;
    std::vector<int64_t> times(2 * leaves_, kNever);
    if (!times_.empty()) {
      std::copy_n(times_.begin() + static_cast<std::ptrdiff_t>(before), before,
                  times.begin() + static_cast<std::ptrdiff_t>(leaves_));
    }
    times_ = std::move(times);
    for (size_t node = leaves_; node-- > 1;) {
      times_[node] = std::min(times_[2 * node], times_[2 * node + 1]);
    }
  }
  void set(size_t slot, int64_t time_ns) {
    size_t node = leaves_ + slot;
    times_[node] = time_ns;
    for (node /= 2; node > 0; node /= 2) {
      times_[node] = std::min(times_[2 * node], times_[2 * node + 1]);
    }
  }
  int64_t time_ns() const { return times_[1]; }
  /// The lowest slot with the earliest time.
  size_t slot() const {
    size_t node = 1;
    while (node < leaves_) {
      node = times_[2 * node] == times_[node] ? 2 * node : 2 * node + 1;
    }
    return node - leaves_;
  }

 private:
  size_t leaves_ = 1;
  std::vector<int64_t> times_;
};

}  // namespace reprise
