// What `reprise replay` answers and how it prints it, whatever was replayed: a
// recorded program, under its plan or another, or an imported trace.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/output.h"
#include "costmodel/cost_model.h"
#include "replay/analysis/breakdown.h"
#include "replay/clocks/aligned_trace.h"
#include "replay/graph/timed_graph.h"
#include "replay/simulate/critical_path.h"
#include "replay/simulate/trace_replay.h"

namespace reprise {

/// As on the command line.
struct ReplayOptions {
  std::string trace_path, plan_path, validate_path, costs_path, chrome_path;
  std::vector<std::string> what_ifs;
  std::optional<int32_t> step;
  Existing existing = Existing::kKeep;  ///< At `chrome_path`.
  Format format = Format::kTable;
};

struct ReplayReport {
  struct Rank {
    uint32_t rank = 0;
    Breakdown parts;  ///< Predicted.
    int64_t predicted_ns = 0;
    std::optional<int64_t> measured_ns;
    double unexplained = 0;  ///< Share of replayed gaps.
  };
  /// Of an imported trace: what its graph is made of, and the whole window.
  struct Graph {
    size_t nodes = 0;
    std::array<int64_t, kEdgeKinds> edges{};  ///< [EdgeKind]
    int64_t cycles_repaired = 0;
    bool timed = true;
    std::vector<ReplayedStep> steps;  ///< Of each rank.
    int64_t window_ns = 0;
  };

  std::vector<std::string> what_ifs;
  /// Medians over steps; under what-ifs, the recorded one changed as all steps
  /// together are, or means where steps are uneven; without steps, the longest
  /// span of a rank.
  int64_t predicted_ns = 0;
  /// The recorded run without what-ifs, under the recorded plan.
  int64_t recorded_ns = 0;
  std::optional<int64_t> measured_ns;
  int64_t spread_ns = 0;   ///< Of the recorded steps, their middle half.
  int64_t tracing_ns = 0;  ///< As RunModel has it; in no other figure here.
  /// What the prediction is held against, if anything: the trace's own times,
  /// or those of another one.
  std::optional<int64_t> reference_ns;
  /// How long it would last if no gap were replayed that nothing names.
  int64_t without_gaps_ns = 0;    ///< Of the window.
  double without_gaps_share = 1;  ///< Of the steps, or the window.
  std::vector<Rank> ranks;
  std::vector<JobStep> steps;  ///< That all ranks have; no warm-up.
  bool by_steps = true;        ///< Else `predicted_ns` is a span.
  bool by_mean = false;        ///< Of the steps, else their medians.
  PathSources sources;
  CriticalPath path;
  std::vector<ClockAlignment> clocks;
  std::vector<std::string> warnings, notes;
  std::optional<Graph> graph;
  std::optional<CostModel> costs;  ///< Of a program.
};

/// Prints the answer; warnings and notes on stderr. `facts` name
/// what is on the path.
void print_report(const ReplayOptions& options, const ReplayReport& report,
                  const NodeFacts& facts);

/// Replays a trace that embeds its program, and prints. Errors: as
/// lowered_program_of, model_run, replay_step, measured_in.
Status replay_program(const AlignedTrace& aligned,
                      const ReplayOptions& options);

/// Replays somebody else's run, its graph inferred from what was recorded, and
/// prints. Errors: as build_trace_graph, replay_trace, measured_in.
Status replay_imported(const AlignedTrace& aligned,
                       const ReplayOptions& options);

/// What another trace measured: of our trainer its step time without what
/// recording cost, else the same that a replay of it is held against. Errors:
/// kInvalid, naming `path`.
Result<int64_t> measured_in(const std::string& path,
                            const std::optional<int32_t>& step);

}  // namespace reprise
