// A recorded run analysed: each rank's breakdown and idle causes by step, the
// collectives with waits and transfers, who is late, kernels, launches, clocks
// and the critical path across ranks.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/result.h"
#include "data/trace/step_times.h"
#include "data/trace/trace.h"
#include "replay/analysis/breakdown.h"
#include "replay/analysis/idle_causes.h"
#include "replay/analysis/kernel_statistics.h"
#include "replay/analysis/stragglers.h"
#include "replay/clocks/aligned_trace.h"
#include "replay/simulate/trace_replay.h"

namespace reprise {

struct StepAnalysis {
  StepMark mark;
  std::string name;  ///< As recorded ("ProfilerStep#3"), else "step 3".
  /// Until the next step of the rank starts; -1 for the last one.
  int64_t iteration_ns = -1;
  /// Work clipped to the step as the device keeps it (device_steps): what
  /// headlines and tables tell. As `host` where the host waits in each step.
  Breakdown window;
  IdleCauses idle;       ///< Of `window`.
  Breakdown host;        ///< Work clipped to the host's mark.
  IdleCauses host_idle;  ///< Of `host`.
  Breakdown launched;    ///< Work that the step launched, over its span.
};

struct RankAnalysis {
  uint32_t rank = 0;
  bool host_only = false;
  Breakdown window;  ///< All device work, or the chosen step.
  IdleCauses idle;
  std::vector<StepAnalysis> steps;  ///< Without warm-up, by start.
  std::vector<StreamIdle> streams;  ///< Within `window`.
  LaunchStatistics launches;
};

struct Analysis {
  explicit Analysis(const AlignedTrace& recorded)
      : matching(recorded.matching()), clocks(recorded.clocks()) {}

  std::vector<RankAnalysis> ranks;
  /// Steps that all ranks have, as complete_steps has device_steps: a host that
  /// runs ahead of its device is no faster than that.
  std::vector<TimedStep> steps;
  /// Their median; of a chosen step, that step (the longest over ranks, where
  /// it does not count). None without steps.
  std::optional<int64_t> step_ns;
  std::optional<TypicalStep> typical;  ///< None for a chosen step.
  int64_t between_steps_ns = 0;
  const CollectiveMatching& matching;  ///< Of the analysed trace.
  std::vector<CollectiveTimes> times;  ///< [place in the matching]
  std::vector<uint32_t> collectives;   ///< Places that the window holds.
  std::vector<Straggler> stragglers;
  /// Collectives may have had members that were not recorded: which rank came
  /// last is not known.
  bool lacks_ranks = false;
  std::vector<KernelStatistics> kernels;
  CriticalPath critical_path;
  /// What the critical path was found in: of an imported trace, its window's.
  std::optional<TimedGraph> graph;
  GraphTimes graph_times;  ///< As recorded.
  const std::vector<ClockAlignment>& clocks;
  std::vector<std::string> remarks;  ///< In whole sentences.
};

struct AnalysisOptions {
  std::optional<int32_t> step;  ///< Of which step; none: of everything.
  bool critical_path = true;
  /// What a trace of our trainer ran: its critical path is then that of its
  /// replay. The schedule knows which unit waited for which; times alone would
  /// leave a collective's start unexplained. Null: the graph of the trace.
  const Schedule* program = nullptr;
};

/// The answer refers to `recorded`. The critical path is that of the chosen
/// step, else of the step nearest to the median, else of everything. Errors:
/// kUnsupported when no rank has times, or none did any work; kInvalid when the
/// step does not exist (with those that do).
Result<Analysis> analyze(const AlignedTrace& recorded,
                         const AnalysisOptions& options = {});

}  // namespace reprise
