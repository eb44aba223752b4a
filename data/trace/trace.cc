#include "data/trace/trace.h"

#include <algorithm>
#include <cmath>

namespace reprise {

std::string_view name_of(EventKind kind) {
  constexpr std::string_view kNames[] = {
      "compute",    "collective", "feed",    "wait",    "other",
      "copy",       "memset",     "host-op", "runtime", "synchronization",
      "annotation", "overhead"};
  return kind <= kLastEventKind ? kNames[static_cast<size_t>(kind)] : "other";
}

std::string_view name_of(StreamKind kind) {
  constexpr std::string_view kNames[] = {"trainer", "host-thread",
                                         "device-stream", "tensor"};
  return kind <= kLastStreamKind ? kNames[static_cast<size_t>(kind)] : "other";
}

int64_t to_rank0_ns(const RankInfo& rank, int64_t time_ns) {
  const double elapsed_ns = static_cast<double>(time_ns) -
                            static_cast<double>(rank.clock_reference_ns);
  // 9e18 ns keeps the rounding within 64 bits, whatever a damaged clock says.
  const double correction_ns =
      std::clamp(rank.clock_drift_ppm * 1e-6 * elapsed_ns, -9e18, 9e18);
  const auto sum =
      static_cast<uint64_t>(time_ns) +
      static_cast<uint64_t>(rank.clock_offset_ns) +
      static_cast<uint64_t>(static_cast<int64_t>(std::llround(correction_ns)));
  return static_cast<int64_t>(sum);
}

}  // namespace reprise
