// The global critical path of a replay: the chain of causes, across ranks, from
// the last end back to the start, without a gap. One walk for every graph.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "replay/graph/evaluate.h"
#include "replay/graph/priced_schedule.h"
#include "replay/graph/timed_graph.h"
#include "replay/simulate/node_facts.h"

namespace reprise {

/// One stretch; stretches cover the path without a gap.
struct PathEntry {
  PathKind kind = PathKind::kKernel;
  uint32_t rank = 0;
  /// Index in Trace::events, or unit; of a gap or dispatch: what it precedes.
  uint32_t origin = 0;
  int64_t start_ns = 0, duration_ns = 0;  ///< On rank 0's clock.
};

/// What a stretch is called: its event or unit, or, of what a priced step
/// spends beside its units, its kind.
std::string_view path_name(const NodeFacts& facts, const PathEntry& entry);

constexpr uint32_t kNoPathNode = std::numeric_limits<uint32_t>::max();

/// [rank place] The node that ends last; and over all ranks, as the last entry.
/// Of equals the lower one; in a step that of the lower (rank, unit).
/// kNoPathNode: there is none.
std::vector<uint32_t> last_nodes(const TimedGraph& graph,
                                 const GraphTimes& times);

/// The latest chain of causes that ends with `node` (kNoPathNode: an empty
/// one), in time order; of causes at one time the lower node, unless `times`
/// say which. Requires: `times` are the graph's, `facts` those of its origins.
std::vector<PathEntry> critical_path_to(uint32_t node, const TimedGraph& graph,
                                        const GraphTimes& times,
                                        const NodeFacts& facts);
/// What of a path lies between two times.
std::vector<PathEntry> path_within(const std::vector<PathEntry>& path,
                                   int64_t start_ns, int64_t end_ns);
/// To the last node of all; of one step's window, from where that step begins.
std::vector<PathEntry> critical_path(const TimedGraph& graph,
                                     const GraphTimes& times,
                                     const NodeFacts& facts);

/// A path and what it is made of.
struct CriticalPath {
  CriticalPath() = default;
  explicit CriticalPath(std::vector<PathEntry> path,
                        std::optional<int32_t> of_step = {});

  std::optional<int32_t> step;  ///< Of which step; none: of everything.
  std::vector<PathEntry> entries;
  std::array<int64_t, kPathKinds> by_kind_ns{};
  int64_t length_ns = 0;
};

/// Shares of a path by where its durations came from; they sum to 1.
struct PathSources {
  double measured = 1, calibrated = 0, modelled = 0;  ///< By PriceSource.
  // Fitted over recorded gaps, not to this unit or that:
  double dispatch = 0;     ///< Handing over, also of an imported trace.
  double wake_ups = 0;     ///< Of streams that waited.
  double jitter = 0;       ///< Ranks that noise pulled apart meet again.
  double step_gaps = 0;    ///< Filling the batch, ending the step.
  double preempted = 0;    ///< CollectivePrice::preempted_ns.
  double unexplained = 0;  ///< Replayed gaps.

  double fitted_gaps() const {
    return dispatch + wake_ups + jitter + step_gaps + preempted;
  }
};
/// `priced` is null of a trace, where all durations were measured and gaps are
/// dispatch as far as they are explained.
PathSources sources_of(const std::vector<PathEntry>& path,
                       const PricedSchedule* priced);

}  // namespace reprise
