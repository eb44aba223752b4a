// Why a device was idle. A gap lies between the last end of all device work so
// far and the next start; its causes come from the work `next` that ends it and
// the work `previous` that ended last before it. Until the call that launches
// `next` returns, and as long after its begin as launches onto the idle device
// mostly take (the median),
//
//   host       nothing was queued, the device waited for the host
//              (HolisticTraceAnalysis: "host wait");
//   synchronized  as host, and while the gap began the host itself sat in a
//              synchronization, which it left before it launched `next`;
//
// and from then on,
//
//   collective `next` was queued when the gap began, and `previous` was a
//              collective on another stream: its wait for that ended late;
//   kernel     as collective, after any other work of another stream;
//   launch     else: latency of launches and of the device itself;
//
//   unknown    all of it, if `next` has no recorded launch.
//
// After the last work of a trace the device waits for the host.
//
// A stream is idle more often than its device. Per stream a gap is divided:
// until `next` was launched, host; then, while a collective runs on other
// streams, collective; while other work does, kernel; else launch.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "data/trace/intervals.h"
#include "replay/analysis/breakdown.h"
#include "replay/analysis/device_work.h"

namespace reprise {

enum class IdleCause : uint8_t {
  kHost,
  kSynchronized,
  kCollective,
  kKernel,
  kLaunch,
  kUnknown,
};
constexpr size_t kIdleCauses = 6;
std::string_view name_of(IdleCause cause);

struct IdleCauses {
  std::array<int64_t, kIdleCauses> by_cause_ns{};
  int64_t& operator[](IdleCause cause) {
    return by_cause_ns[static_cast<size_t>(cause)];
  }
  int64_t operator[](IdleCause cause) const {
    return by_cause_ns[static_cast<size_t>(cause)];
  }
  /// Host-bound: kHost and kSynchronized.
  int64_t host_bound_ns() const {
    return (*this)[IdleCause::kHost] + (*this)[IdleCause::kSynchronized];
  }
  int64_t total_ns() const;
};

/// The gaps of one rank's device by cause, made once and asked for any window.
class DeviceGaps {
 public:
  DeviceGaps() = default;
  explicit DeviceGaps(const RankWork& work);
  /// Sums to the window's idle time. Cost: O(log n).
  IdleCauses within(int64_t start_ns, int64_t end_ns) const;

 private:
  std::array<IntervalSet, kIdleCauses> gaps_;
};

struct StreamIdle {
  uint32_t stream = 0;  ///< Index in Trace::streams.
  int64_t events = 0, busy_ns = 0;
  IdleCauses idle;
};

/// Each stream of the rank's work within a window; `unions` are those of all
/// of `work`. Sorted by stream.
std::vector<StreamIdle> stream_idle(const RankWork& work,
                                    const DeviceUnions& unions,
                                    int64_t start_ns, int64_t end_ns);

}  // namespace reprise
