// Where the time of a recorded run went: unions and intersections of intervals
// on each rank's device. Definitions agree with HolisticTraceAnalysis
// ("temporal breakdown", "communication-computation overlap"); what counts as
// device work is said in replay/analysis/device_work.h.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/trace/intervals.h"
#include "data/trace/trace.h"
#include "replay/analysis/device_work.h"
#include "replay/simulate/replay.h"

namespace reprise {

/// Of one rank's device within a window, in nanoseconds of its own clock.
/// Copies and memsets are `memory`: neither compute nor communication, and they
/// hide nothing; they do count as busy.
struct Breakdown {
  int64_t window_start_ns = 0, window_ns = 0;
  int64_t compute_ns = 0, communication_ns = 0, memory_ns = 0;  ///< Unions.
  int64_t overlapped_ns = 0;  ///< Communication with compute.
  int64_t exposed_ns = 0;     ///< Communication without compute.
  int64_t idle_ns = 0;        ///< Window without any of the three.
  /// Each instant counted once: compute before exposed before memory.
  struct Exclusive {
    int64_t compute_ns = 0, exposed_ns = 0, memory_ns = 0, idle_ns = 0;
    bool operator==(const Exclusive&) const = default;
  } exclusive;
  bool operator==(const Breakdown&) const = default;
};

/// The unions of some device work, made once and asked for any window.
class DeviceUnions {
 public:
  DeviceUnions() = default;
  explicit DeviceUnions(std::span<const DeviceEvent> events)
      : DeviceUnions(RankWork(), events) {}
  /// Of the rank's work or a part of it. What a host's thread computes is
  /// without its waits and the collectives that it runs itself.
  DeviceUnions(const RankWork& work, std::span<const DeviceEvent> part);
  explicit DeviceUnions(const RankWork& work)
      : DeviceUnions(work, work.events) {}

  /// Work clipped to the window. Cost: O(log n).
  Breakdown within(int64_t start_ns, int64_t end_ns) const;
  /// From the first start to the last end of the work.
  Breakdown whole() const;

  const IntervalSet& communication() const { return communication_; }
  const IntervalSet& busy() const { return busy_; }

 private:
  IntervalSet compute_, communication_, memory_;
  IntervalSet overlapped_;  ///< Communication and compute.
  IntervalSet busy_;        ///< Any of the three.
  Interval span_;
};

/// `step_cpu`: device work clipped to the host's step window.
Breakdown break_down(const Trace& trace, uint32_t rank, int64_t start_ns,
                     int64_t end_ns);
/// Over the rank's device work: from its first start to its last end.
Breakdown break_down(const Trace& trace, uint32_t rank);

/// Of one rank in a replayed step; waits inside collectives are communication.
Breakdown break_down(const Schedule& schedule,
                     const std::vector<UnitTime>& times, int64_t step_ns);

/// `step_launched`: the work that each step launched, wherever it ran; the
/// window is its span. Shape: [step of the rank]. Zero where a step launched
/// nothing. Cost: linear in the rank's work.
std::vector<Breakdown> break_down_launched(const RankWork& work);

}  // namespace reprise
