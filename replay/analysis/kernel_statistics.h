// Which kernels took the time, and how launches went: distributions over the
// device work of a trace.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "data/trace/trace.h"
#include "replay/analysis/device_work.h"

namespace reprise {

/// Device work within a window counts when its step (or, without a launch, its
/// start) lies there.
struct WorkScope {
  std::optional<int32_t> step;  ///< Number of a step; none: everything.
  bool holds(const RankWork& work, const DeviceEvent& event) const;
  /// Whether statistics are of it, too: of everything, not what ran before and
  /// in the steps to warm up, where a first launch loads its code.
  bool counts(const RankWork& work, const DeviceEvent& event) const;
};

/// All work of one name, over all ranks. Durations are own times.
struct KernelStatistics {
  StringId name{};
  WorkClass work = WorkClass::kCompute;
  int64_t count = 0;
  int64_t total_ns = 0, median_ns = 0, p95_ns = 0, longest_ns = 0;
};

class KernelDurations {
 public:
  /// Adds a rank's work; `trace` holds its events.
  void add(const Trace& trace, const RankWork& rank, const WorkScope& scope);
  /// Longest total first, then by name's text. Ends the collection.
  std::vector<KernelStatistics> statistics(const Trace& trace) &&;

 private:
  struct OfName {
    WorkClass work = WorkClass::kCompute;  ///< Of its last event.
    std::vector<int64_t> durations_ns;
  };
  std::vector<OfName> by_name_;  ///< [StringId]
};

/// Percentiles are of sorted values at place (n - 1) * p, rounded down.
struct Distribution {
  int64_t least = 0, median = 0, p95 = 0, most = 0;
  double mean = 0;
};
Distribution distribution_of(std::vector<int64_t> values);

/// Work is `tiny` below this duration: about what launching a kernel costs.
constexpr int64_t kTinyKernelNs = 10'000;

struct LaunchStatistics {
  int64_t launches = 0;  ///< Calls that started device work.
  int64_t works = 0;     ///< Device work in all.
  int64_t without_launch = 0;
  int64_t most_per_launch = 0;  ///< Hundreds where graphs are launched.
  /// From a launch's start to its work's start.
  Distribution delay_ns;
  int64_t started_early = 0;  ///< Before its launch: clocks disagree.
  int64_t tiny = 0, tiny_ns = 0, total_ns = 0;
  /// Launched and not yet started, over time and at most.
  double mean_queue_depth = 0;
  int64_t deepest_queue = 0;
};

LaunchStatistics launch_statistics(const RankWork& work,
                                   const WorkScope& scope);

}  // namespace reprise
