// The global critical path of a replay: the chain of causes, across ranks, from
// the last end back to the start, without a gap. One walk for every graph.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "data/trace/trace.h"
#include "replay/graph/evaluate.h"
#include "replay/graph/priced_schedule.h"
#include "replay/graph/timed_graph.h"

namespace reprise {

/// Why the critical path lasts where it lasts.
enum class PathKind : uint8_t {
  // Of traces:
  kKernel,       ///< Device work that is no collective or copy.
  kCollective,   ///< Transfer of a collective.
  kCopy,         ///< Copies and memsets.
  kHost,         ///< Host ops and runtime calls.
  kLaunch,       ///< From a launch's start to its device work's start; between
                 ///< queued work of a stream; from an event to who awaited it.
  kRange,        ///< A host thread within a named range, between its ops.
  kUnexplained,  ///< A recorded gap that no dependency explains.
  // Of a priced step:
  kUnit,      ///< A compute unit, or the transfer of a collective.
  kDispatch,  ///< Handing a unit to its stream, or waking a stream that waited.
  kFeed,      ///< Filling the batch.
  kOverhead,  ///< Ending the step.
};
/// Those of traces: the first so many.
constexpr size_t kTracePathKinds = 7;
constexpr size_t kPathKinds = 11;
std::string_view name_of(PathKind kind);

/// One stretch; stretches cover the path without a gap.
struct PathEntry {
  PathKind kind = PathKind::kUnit;
  uint32_t rank = 0;
  /// Index in Trace::events, or unit; of a gap or dispatch: what it precedes.
  uint32_t origin = 0;
  int64_t start_ns = 0, duration_ns = 0;  ///< On rank 0's clock.
};

/// What a stretch is called: its event, if that is what lasted; else its kind.
/// Requires: origins are events of `trace`.
std::string_view path_name(const Trace& trace, const PathEntry& entry);

constexpr uint32_t kNoPathNode = std::numeric_limits<uint32_t>::max();

/// [rank place] The node that ends last; and over all ranks, as the last entry.
/// Of equals the lower one; in a step that of the lower (rank, unit).
/// kNoPathNode: there is none.
std::vector<uint32_t> last_nodes(const TimedGraph& graph,
                                 const GraphTimes& times);

/// The latest chain of causes that ends with `node` (kNoPathNode: an empty
/// one), in time order; of causes at one time the lower node, unless `times`
/// say which. Requires: `times` are the graph's; `trace` is what it was built
/// of, or null of a schedule.
std::vector<PathEntry> critical_path_to(uint32_t node, const TimedGraph& graph,
                                        const GraphTimes& times,
                                        const Trace* trace);
/// To the last node of all.
std::vector<PathEntry> critical_path(const TimedGraph& graph,
                                     const GraphTimes& times,
                                     const Trace* trace);

/// Shares of a path by where its durations came from; they sum to 1.
struct PathSources {
  double measured = 1, calibrated = 0, modelled = 0;
  double unexplained = 0;  ///< Replayed gaps.
};
/// `priced` is null of a trace, where all durations were measured.
PathSources sources_of(const std::vector<PathEntry>& path,
                       const PricedSchedule* priced);

}  // namespace reprise
