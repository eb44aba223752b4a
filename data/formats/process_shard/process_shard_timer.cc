// The timer ticks in ns but from another zero. A kernel whose start CUPTI saw
// on the host's clock and whose first channel NCCL saw on the timer gives a
// pair, and a time is moved by the nearest pair; without pairs the host's view
// of a channel's end bounds the offset from above and the call that started it
// from below.
#include "data/formats/process_shard/process_shard_timer.h"

#include <algorithm>
#include <limits>

#include "data/integers.h"

namespace reprise {

void GpuTimer::add_pair(int64_t timer_ns, int64_t host_ns) {
  pairs_.emplace_back(timer_ns, saturating_subtract(host_ns, timer_ns));
}

void GpuTimer::add_upper_bound(int64_t offset_ns) {
  upper_ns_ = std::min(upper_ns_.value_or(offset_ns), offset_ns);
}

void GpuTimer::add_lower_bound(int64_t offset_ns) {
  lower_ns_ = std::max(lower_ns_.value_or(offset_ns), offset_ns);
}

void GpuTimer::finish() { std::sort(pairs_.begin(), pairs_.end()); }

int64_t GpuTimer::host_ns(int64_t timer_ns) const {
  if (pairs_.empty()) {
    return saturating_add(timer_ns,
                          upper_ns_ ? *upper_ns_ : lower_ns_.value_or(0));
  }
  auto nearest = std::lower_bound(
      pairs_.begin(), pairs_.end(),
      std::pair(timer_ns, std::numeric_limits<int64_t>::min()));
  if (nearest == pairs_.end() ||
      (nearest != pairs_.begin() &&
       saturating_subtract(timer_ns, std::prev(nearest)->first) <
           saturating_subtract(nearest->first, timer_ns))) {
    --nearest;
  }
  return saturating_add(timer_ns, nearest->second);
}

int64_t GpuTimer::residual_ns() const {
  if (!pairs_.empty()) {
    int64_t most = 0;
    for (size_t i = 1; i < pairs_.size(); ++i) {
      const int64_t apart =
          saturating_subtract(pairs_[i].second, pairs_[i - 1].second);
      most = std::max({most, apart, saturating_subtract(0, apart)});
    }
    return most;
  }
  if (!upper_ns_ || !lower_ns_) return -1;
  return std::max<int64_t>(0, saturating_subtract(*upper_ns_, *lower_ns_));
}

}  // namespace reprise
