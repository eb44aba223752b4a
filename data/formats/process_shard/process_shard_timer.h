// The GPU's own timer, on which NCCL's plugin sees channels of kernels, on the
// host's clock.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace reprise {

/// Of one process.
class GpuTimer {
 public:
  /// A start on both clocks.
  void add_pair(int64_t timer_ns, int64_t host_ns);
  /// At most so much, or at least so much, is host time minus timer.
  void add_upper_bound(int64_t offset_ns);
  void add_lower_bound(int64_t offset_ns);
  /// To be called once all is added.
  void finish();

  bool is_known() const { return !pairs_.empty() || upper_ns_ || lower_ns_; }
  bool by_kernels() const { return !pairs_.empty(); }
  /// By the nearest pair; else by the smallest recorded delay until the host
  /// saw an end; else by the smallest one until a call began on the device.
  int64_t host_ns(int64_t timer_ns) const;
  /// How far apart offsets of neighbouring pairs lie, or the two bounds; -1:
  /// unknown.
  int64_t residual_ns() const;

 private:
  std::vector<std::pair<int64_t, int64_t>> pairs_;  ///< Timer, offset.
  std::optional<int64_t> upper_ns_, lower_ns_;
};

}  // namespace reprise
