// `reprise replay` of a trace without an embedded program: somebody else's run,
// its graph inferred from what was recorded.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/output.h"
#include "data/draw/chrome_export.h"
#include "data/result.h"
#include "data/trace/trace.h"
#include "replay/analysis/breakdown.h"
#include "replay/clocks/clock_alignment.h"
#include "replay/graph/trace_graph.h"
#include "replay/simulate/trace_replay.h"
#include "replay/simulate/trace_replay_timeline.h"

namespace reprise {

struct ImportedReplayOptions {
  std::string path;  ///< Of the trace, for messages.
  std::string validate_path, chrome_path;
  std::vector<std::string> what_ifs;
  std::optional<int32_t> step;
  Format format = Format::kTable;
};

/// A step over all ranks: the longest of them.
struct ReplayedStepTime {
  int32_t step = 0;
  int64_t predicted_ns = 0, measured_ns = 0;
};

struct ImportedReplay {
  std::vector<ClockAlignment> clocks;
  TimedGraph graph;
  TraceReplay replay;  ///< Under the what-ifs.
  std::vector<std::string> what_ifs;
  std::vector<ReplayedStepTime> steps;  ///< That all ranks have; no warm-up.
  std::vector<Breakdown> ranks;         ///< [rank place] predicted.
  std::vector<std::string> notes;
  /// Medians over steps; without steps, the longest span of a rank.
  int64_t predicted_ns = 0, recorded_ns = 0, measured_ns = 0;
  /// What the prediction is held against, if anything: the trace's own times,
  /// or those of another one.
  std::optional<int64_t> reference_ns;

  std::optional<double> error() const {
    if (!reference_ns || *reference_ns <= 0) return std::nullopt;
    return static_cast<double>(predicted_ns) /
               static_cast<double>(*reference_ns) -
           1;
  }
  bool by_steps() const { return !steps.empty(); }
};

/// Aligns, replays and prints. Errors: as build_trace_graph,
/// parse_what_if, replay_trace and read_trace of the trace to validate with.
Result<int> replay_imported(Trace recorded,
                            const ImportedReplayOptions& options);

/// The answer in its first line, then tables that fit a screen.
std::string imported_replay_text(const Trace& trace,
                                 const ImportedReplay& replay);
/// reprise.replay/1.
nlohmann::ordered_json imported_replay_json(const Trace& trace,
                                            const ImportedReplay& replay,
                                            const std::optional<int32_t>& step);
/// A row for each rank, and one for each of its steps.
Table imported_replay_rows(const Trace& trace, const ImportedReplay& replay);

/// Recorded and predicted ranks, arrows along the predicted critical path.
ChromeTimeline imported_replay_timeline(const Trace& trace,
                                        const ImportedReplay& replay);

}  // namespace reprise
