// Replays a trace of somebody else's run: a graph inferred from what was
// recorded, durations replayed, waits recomputed, gaps explained or counted.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/result.h"
#include "data/trace/trace.h"
#include "replay/collectives.h"
#include "replay/trace_graph.h"
#include "replay/what_if.h"

namespace reprise {

/// Why the critical path lasts where it lasts.
enum class TracePathKind : uint8_t {
  kKernel,       ///< Device work that is no collective or copy.
  kCollective,   ///< Transfer of a collective.
  kCopy,         ///< Copies and memsets.
  kHost,         ///< Host ops and runtime calls.
  kLaunch,       ///< From a launch's start to its device work's start.
  kUnexplained,  ///< A recorded gap that no dependency explains.
};
std::string_view name_of(TracePathKind kind);

/// One stretch of the global critical path; stretches cover it without a gap.
struct TracePathEntry {
  TracePathKind kind = TracePathKind::kKernel;
  uint32_t rank = 0;
  uint32_t event = 0;  ///< Index in Trace::events; of a gap: what it precedes.
  int64_t start_ns = 0, duration_ns = 0;  ///< On rank 0's clock.
};

/// A replayed window (a step or the whole trace) on all ranks.
struct TraceReplay {
  int64_t predicted_ns = 0, measured_ns = 0;  ///< Maximum over ranks.
  std::vector<int64_t> rank_predicted_ns, rank_measured_ns;  ///< [rank place]
  std::vector<int64_t> start_ns, end_ns;      ///< [graph node], predicted.
  std::vector<TracePathEntry> critical_path;  ///< In time order.
  /// Share of the predicted time, on the critical path, that is replayed gap.
  double unexplained_share = 0;
};

/// Replays `graph` under what-ifs (none: as recorded). Errors: as
/// apply_what_if.
Result<TraceReplay> replay_trace(const Trace& trace, const TraceGraph& graph,
                                 std::span<const WhatIf> what_ifs = {});

}  // namespace reprise
