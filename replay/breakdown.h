// Where the time of a recorded run went: unions and intersections of intervals
// on each rank's device. Definitions agree with HolisticTraceAnalysis
// ("temporal breakdown", "communication-computation overlap").
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/trace/trace.h"

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
  } exclusive;
};

/// `step_cpu`: device work clipped to the host's step window.
Breakdown break_down(const Trace& trace, uint32_t rank, int64_t start_ns,
                     int64_t end_ns);
/// Over the rank's device work: from its first start to its last end.
Breakdown break_down(const Trace& trace, uint32_t rank);

}  // namespace reprise
