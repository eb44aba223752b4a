// `reprise replay` of a trace without an embedded program: somebody else's run,
// its graph inferred from what was recorded.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "cli/open_trace.h"
#include "cli/path_output.h"
#include "cli/replay_report.h"
#include "data/program/lowered_program.h"
#include "data/trace/step_times.h"
#include "replay/analysis/cut_steps.h"
#include "replay/analysis/device_work.h"
#include "replay/clocks/aligned_trace.h"
#include "replay/simulate/run_model.h"
#include "replay/simulate/trace_replay_timeline.h"

namespace reprise {
namespace {

/// Of two in the middle, their mean.
int64_t median_of(const std::vector<JobStep>& steps, int64_t JobStep::*time) {
  std::vector<int64_t> values;
  values.reserve(steps.size());
  for (const JobStep& step : steps) values.push_back(step.*time);
  std::sort(values.begin(), values.end());
  const int64_t low = values[(values.size() - 1) / 2];
  return low + (values[values.size() / 2] - low) / 2;
}

int64_t predicted_time(const TraceReplay& replay) {
  const std::vector<JobStep>& steps = replay.job_steps;
  return steps.empty() ? replay.predicted_ns
                       : median_of(steps, &JobStep::predicted_ns);
}

int64_t mean_of(const std::vector<JobStep>& steps, int64_t JobStep::*time) {
  double sum_ns = 0;
  for (const JobStep& step : steps) sum_ns += static_cast<double>(step.*time);
  return std::llround(sum_ns / static_cast<double>(steps.size()));
}

int64_t measured_time(const TraceReplay& replay) {
  const std::vector<JobStep>& steps = replay.job_steps;
  return steps.empty() ? replay.measured_ns
                       : median_of(steps, &JobStep::measured_ns);
}

Result<TimedGraph> graph_of(const AlignedTrace& aligned,
                            const std::optional<int32_t>& step) {
  TraceWindow window;
  if (step) window.step = *step;
  return build_trace_graph(aligned, window);
}

/// Those steps predict nothing that lack their kernels: as steps to warm up
/// they are replayed and count for nothing. A step asked for stays.
void leave_out(const CutSteps& cut, TimedGraph& graph) {
  const auto is_cut = [&](const TimedGraph::Span& step) {
    return cut.left_out().contains(step.step);
  };
  if (std::all_of(graph.steps.begin(), graph.steps.end(), is_cut)) return;
  for (TimedGraph::Span& step : graph.steps) step.is_warmup |= is_cut(step);
}

/// Each rank within its predicted span, its device's parts in it.
std::vector<ReplayReport::Rank> ranks_of(const TraceByRank& by_rank,
                                         const TimedGraph& graph,
                                         const TraceReplay& replay) {
  const Trace& trace = by_rank.frame();
  std::vector<ReplayReport::Rank> ranks;
  for (size_t place = 0; place < trace.ranks.size(); ++place) {
    ReplayReport::Rank& rank = ranks.emplace_back();
    rank.rank = trace.ranks[place].rank;
    rank.predicted_ns = replay.rank_predicted_ns[place];
    if (graph.timed) rank.measured_ns = replay.rank_measured_ns[place];
    rank.unexplained = replay.rank_unexplained_share[place];
  }
  visit_predicted_ranks(
      by_rank, graph, replay, [&](uint32_t place, const Trace& predicted) {
        if (predicted.events.empty()) return;
        int64_t end_ns = std::numeric_limits<int64_t>::min();
        for (const Event& event : predicted.events) {
          end_ns = std::max(end_ns, event.end_ns);
        }
        ranks[place].parts =
            break_down(predicted, predicted.ranks[place].rank,
                       end_ns - ranks[place].predicted_ns, end_ns);
      });
  return ranks;
}

// Collectives that nobody timed count as instant, and that must be said.
void note_untimed_collectives(const TimedGraph& graph, ReplayReport& report) {
  if (graph.timed) return;
  int64_t instant = 0;
  for (size_t node = 0; node < graph.size(); ++node) {
    instant += graph.collective[node] >= 0 && graph.duration[node] == 0;
  }
  if (instant == 0) return;
  report.notes.push_back(fmt::format(
      "{} collective calls have no recorded duration and take no time here.",
      instant));
}

/// Recorded and predicted ranks, arrows along the predicted critical path.
ChromeTimeline replayed_timeline(const Trace& trace, const TimedGraph& graph,
                                 const TraceReplay& replay) {
  ChromeTimeline timeline;
  const ReplayTimeline both = replay_timeline(trace, graph, replay);
  const Trace& predicted = both.predicted;
  std::vector<uint32_t> slices(predicted.events.size(), kNoSlice);
  for (const RankInfo& rank : predicted.ranks) {
    if (graph.timed) {
      add_measured_rank(timeline, both.recorded, rank.rank,
                        {.suffix = " measured"});
    }
    const MeasuredSlices added = add_measured_rank(
        timeline, predicted, rank.rank, {.suffix = " predicted"});
    const auto [first, last] = events_of_rank(predicted, rank.rank);
    for (size_t event = first; event < last; ++event) {
      slices[event] = added.by_event[event];
    }
  }
  add_path_arrows(
      replay.critical_path,
      [&](const PathEntry& entry) {
        const uint32_t place = both.predicted_place[entry.origin];
        return place == ReplayTimeline::kNoEvent ? kNoSlice : slices[place];
      },
      timeline);
  for (const std::string& warning : trace.warnings) {
    timeline.add_note("warning", warning);
  }
  return timeline;
}

ReplayReport::Graph summary_of(const TimedGraph& graph,
                               const TraceReplay& replay) {
  ReplayReport::Graph summary{.nodes = graph.size(),
                              .edges = {},
                              .cycles_repaired = graph.cycles_repaired,
                              .timed = graph.timed,
                              .steps = replay.steps,
                              .window_ns = replay.predicted_ns};
  for (size_t at = 0; at < graph.edges.size(); ++at) {
    ++summary.edges[static_cast<size_t>(graph.edges[at].kind)];
  }
  return summary;
}

/// Replayed as recorded and, if there are any, under the what-ifs.
struct Replays {
  TraceReplay recorded;
  std::optional<TraceReplay> changed;

  const TraceReplay& shown() const { return changed ? *changed : recorded; }

  /// Whether a change can be of some steps alone, so that means say more of it
  /// than medians: of a checkpoint, an evaluation, a pause.
  bool by_mean() const {
    constexpr double kUneven = 0.05;
    const std::vector<JobStep>& steps = recorded.job_steps;
    if (!changed || steps.empty()) return false;
    const auto usual_ns = static_cast<double>(predicted_time(recorded));
    const int64_t mean_ns = mean_of(steps, &JobStep::predicted_ns);
    return std::abs(static_cast<double>(mean_ns) - usual_ns) >
           kUneven * usual_ns;
  }

  int64_t recorded_ns() const {
    return by_mean() ? mean_of(recorded.job_steps, &JobStep::predicted_ns)
                     : predicted_time(recorded);
  }

  int64_t measured_ns() const {
    return by_mean() ? mean_of(recorded.job_steps, &JobStep::measured_ns)
                     : measured_time(recorded);
  }

  /// As recorded, changed as all steps together are: what one step waits longer
  /// the next may wait less, so that a slower link shortens some.
  int64_t predicted_ns() const {
    if (!changed) return recorded_ns();
    const auto sum = [](const std::vector<JobStep>& steps) {
      double sum_ns = 0;
      for (const JobStep& step : steps)
        sum_ns += static_cast<double>(step.predicted_ns);
      return sum_ns;
    };
    const double before_ns = sum(recorded.job_steps);
    if (before_ns <= 0) return predicted_time(*changed);
    return std::llround(static_cast<double>(recorded_ns()) *
                        (sum(changed->job_steps) / before_ns));
  }
};

ReplayReport report_of(const AlignedTrace& aligned, TimedGraph graph,
                       const Replays& replays, const ReplayOptions& options) {
  const Trace& trace = aligned.frame();
  const TraceReplay& replay = replays.shown();
  ReplayReport report;
  report.what_ifs = options.what_ifs;
  report.recorded_ns = replays.recorded_ns();
  report.by_mean = replays.by_mean();
  if (graph.timed) {
    report.measured_ns = replays.measured_ns();
    report.spread_ns = typical_step(trace).value_or(TypicalStep{}).spread_ns;
  }
  report.steps = replay.job_steps;
  report.by_steps = !report.steps.empty();
  report.predicted_ns = replays.predicted_ns();
  report.without_gaps_ns = replay.without_gaps_ns;
  report.without_gaps_share = replay.without_gaps_share;
  report.graph = summary_of(graph, replay);
  // The largest part of the graph; only what-ifs are replayed again below.
  if (replay.as_recorded) graph.edges = {};
  report.ranks = ranks_of(aligned.by_rank(), graph, replay);
  report.sources = replay.sources;
  report.path = CriticalPath(replay.critical_path, options.step);
  report.clocks = aligned.clocks();
  report.warnings = trace.warnings;
  report.notes = aligned.matching().notes;
  report.notes.insert(report.notes.end(), graph.notes.begin(),
                      graph.notes.end());
  note_untimed_collectives(graph, report);
  return report;
}

/// Of a run of our trainer, as RunModel has it; a solo run has no model.
Result<int64_t> measured_without_recording(const AlignedTrace& aligned,
                                           const std::string& path) {
  if (is_solo(aligned.frame())) return measured_step_time(aligned.frame());
  const Result<LoweredProgram> program =
      lowered_program_of(aligned.trace(), path, "");
  if (!program) return pass(program.error());
  const Result<RunModel> model = model_run(aligned, program->schedule);
  if (!model) return pass(model.error());
  return model->measured_ns;
}

}  // namespace

Result<int64_t> measured_in(const std::string& path,
                            const std::optional<int32_t>& step) {
  const Result<AlignedTrace> aligned = read_aligned_shown(path);
  if (!aligned) return pass(aligned.error());
  if (!aligned->frame().program_text.empty()) {
    Result<int64_t> measured = measured_without_recording(*aligned, path);
    if (!measured) return pass(measured.error(), path);
    return measured;
  }
  Result<TimedGraph> graph = graph_of(*aligned, step);
  if (!graph) return pass(graph.error(), path);
  leave_out(find_cut_steps(aligned->by_rank()), *graph);
  if (!graph->timed) {
    return fail(ErrorKind::kInvalid,
                "{}: it has no times that a prediction could be held against",
                path);
  }
  const Result<TraceReplay> replay =
      replay_trace(NodeFacts(aligned->by_rank()), *graph);
  if (!replay) return pass(replay.error(), path);
  return measured_time(*replay);
}

Status replay_imported(const AlignedTrace& aligned,
                       const ReplayOptions& options) {
  const NodeFacts facts(aligned.by_rank());
  const Result<std::vector<WhatIf>> what_ifs = parse_what_ifs(options.what_ifs);
  if (!what_ifs) return pass(what_ifs.error());
  Result<TimedGraph> graph = graph_of(aligned, options.step);
  if (!graph) return pass(graph.error(), options.trace_path);
  const CutSteps cut = find_cut_steps(aligned.by_rank());
  leave_out(cut, *graph);
  Result<TraceReplay> as_recorded = replay_trace(facts, *graph);
  if (!as_recorded) return pass(as_recorded.error());
  Replays replays{.recorded = *std::move(as_recorded), .changed = {}};
  if (!what_ifs->empty()) {
    Result<TraceReplay> changed = replay_trace(facts, *graph, *what_ifs);
    if (!changed) return pass(changed.error());
    replays.changed = *std::move(changed);
  }
  std::optional<ChromeTimeline> timeline;
  if (!options.chrome_path.empty()) {
    timeline = replayed_timeline(aligned.trace(), *graph, replays.shown());
  }
  ReplayReport report = report_of(aligned, *std::move(graph), replays, options);
  if (std::optional<std::string> remark = cut.remark())
    report.notes.push_back(*std::move(remark));
  if (!options.validate_path.empty()) {
    const Result<int64_t> measured =
        measured_in(options.validate_path, options.step);
    if (!measured) return pass(measured.error());
    report.reference_ns = *measured;
  } else if (what_ifs->empty()) {
    report.reference_ns = report.measured_ns;
  }
  if (timeline) {
    Status written =
        write_chrome(*timeline, options.chrome_path, options.existing);
    if (!written) return written;
    tell("wrote {}; open it in https://ui.perfetto.dev\n", options.chrome_path);
  }
  print_report(options, report, facts);
  return {};
}

}  // namespace reprise
