#include "cli/replay_imported.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "cli/command.h"
#include "data/trace/step_times.h"
#include "replay/analysis/analysis.h"

namespace reprise {
namespace {

int64_t median(std::vector<int64_t> values) {
  std::sort(values.begin(), values.end());
  const int64_t low = values[(values.size() - 1) / 2];
  return low + (values[values.size() / 2] - low) / 2;
}

std::set<std::pair<uint32_t, int32_t>> warmup_steps(const Trace& trace) {
  std::set<std::pair<uint32_t, int32_t>> warmup;
  for (const StepMark& mark : trace.steps) {
    if (mark.warmup) warmup.emplace(mark.rank, mark.step);
  }
  return warmup;
}

// Steps that as many ranks have as any step, the longest rank of each.
std::vector<ReplayedStepTime> steps_over_ranks(const Trace& trace,
                                               const TraceReplay& replay) {
  const auto warmup = warmup_steps(trace);
  std::map<int32_t, std::pair<size_t, ReplayedStepTime>> steps;
  size_t most = 0;
  for (const ReplayedStep& one : replay.steps) {
    if (warmup.contains({trace.ranks[one.rank].rank, one.step})) continue;
    auto& [ranks, step] = steps[one.step];
    most = std::max(most, ++ranks);
    step.step = one.step;
    step.predicted_ns = std::max(step.predicted_ns, one.predicted_ns);
    step.measured_ns = std::max(step.measured_ns, one.measured_ns);
  }
  std::vector<ReplayedStepTime> complete;
  for (const auto& [number, step] : steps) {
    if (step.first == most) complete.push_back(step.second);
  }
  return complete;
}

int64_t predicted_time(const Trace& trace, const TraceReplay& replay) {
  std::vector<int64_t> times;
  for (const ReplayedStepTime& step : steps_over_ranks(trace, replay)) {
    times.push_back(step.predicted_ns);
  }
  return times.empty() ? replay.predicted_ns : median(std::move(times));
}

int64_t measured_time(const Trace& trace, const TraceReplay& replay) {
  std::vector<int64_t> times;
  for (const ReplayedStepTime& step : steps_over_ranks(trace, replay)) {
    times.push_back(step.measured_ns);
  }
  return times.empty() ? replay.measured_ns : median(std::move(times));
}

Result<TimedGraph> graph_of(const AlignedTrace& aligned,
                            const std::optional<int32_t>& step) {
  TraceWindow window;
  if (step) window.step = *step;
  return build_trace_graph(aligned, window);
}

/// What another trace measured: of our trainer its step time, else the same
/// that a replay of it is held against.
Result<int64_t> measured_in(const std::string& path,
                            const std::optional<int32_t>& step) {
  Result<Trace> trace = read_trace(path);
  if (!trace) return pass(trace.error());
  if (!trace->program_text.empty()) {
    Result<int64_t> measured = measured_step_time(*trace);
    if (!measured) return pass(measured.error(), path);
    return measured;
  }
  const AlignedTrace aligned = AlignedTrace::align(*std::move(trace));
  const Result<TimedGraph> graph = graph_of(aligned, step);
  if (!graph) return pass(graph.error(), path);
  if (!graph->timed) {
    return fail(ErrorKind::kInvalid,
                "{}: it has no times that a prediction could be held against",
                path);
  }
  const Result<TraceReplay> replay = replay_trace(aligned.trace(), *graph);
  if (!replay) return pass(replay.error(), path);
  return measured_time(aligned.trace(), *replay);
}

Result<std::vector<WhatIf>> parse_all(const std::vector<std::string>& texts) {
  std::vector<WhatIf> what_ifs;
  for (const std::string& text : texts) {
    Result<WhatIf> what_if = parse_what_if(text);
    if (!what_if) return pass(what_if.error());
    what_ifs.push_back(*std::move(what_if));
  }
  return what_ifs;
}

/// Each rank's device within its predicted span.
void break_down_ranks(const Trace& trace, ImportedReplay& result) {
  result.ranks.resize(trace.ranks.size());
  visit_predicted_ranks(
      trace, result.graph, result.replay,
      [&](uint32_t place, const Trace& predicted) {
        if (predicted.events.empty()) return;
        int64_t end_ns = std::numeric_limits<int64_t>::min();
        for (const Event& event : predicted.events) {
          end_ns = std::max(end_ns, event.end_ns);
        }
        const RankWork work =
            device_work(predicted, predicted.ranks[place].rank);
        const int64_t start_ns =
            end_ns - result.replay.rank_predicted_ns[place];
        result.ranks[place] =
            DeviceUnions(work.events).within(start_ns, end_ns);
      });
}

// Collectives that nobody timed count as instant, and that must be said.
void note_untimed_collectives(ImportedReplay& result) {
  const TimedGraph& graph = result.graph;
  if (graph.timed) return;
  int64_t instant = 0;
  for (size_t node = 0; node < graph.size(); ++node) {
    instant += graph.collective[node] >= 0 && graph.duration[node] == 0;
  }
  if (instant == 0) return;
  result.notes.push_back(fmt::format(
      "{} collective calls have no recorded duration and take no time here.",
      instant));
}

Result<ImportedReplay> run_replay(const AlignedTrace& aligned,
                                  const ImportedReplayOptions& options) {
  const Trace& trace = aligned.trace();
  const Result<std::vector<WhatIf>> what_ifs = parse_all(options.what_ifs);
  if (!what_ifs) return pass(what_ifs.error());
  Result<TimedGraph> graph = graph_of(aligned, options.step);
  if (!graph) return pass(graph.error(), options.path);
  ImportedReplay result;
  result.clocks = aligned.clocks();
  result.graph = *std::move(graph);
  result.what_ifs = options.what_ifs;
  Result<TraceReplay> replay = replay_trace(trace, result.graph);
  if (!replay) return pass(replay.error());
  result.recorded_ns = predicted_time(trace, *replay);
  result.measured_ns = measured_time(trace, *replay);
  if (!what_ifs->empty()) {
    replay = replay_trace(trace, result.graph, *what_ifs);
    if (!replay) return pass(replay.error());
  }
  result.replay = *std::move(replay);
  result.steps = steps_over_ranks(trace, result.replay);
  result.predicted_ns = predicted_time(trace, result.replay);
  break_down_ranks(trace, result);
  result.notes = aligned.matching().notes;
  result.notes.insert(result.notes.end(), result.graph.notes.begin(),
                      result.graph.notes.end());
  note_untimed_collectives(result);
  return result;
}

void print(const Trace& trace, const ImportedReplay& result,
           const ImportedReplayOptions& options) {
  if (options.format == Format::kTable) {
    const std::string text = imported_replay_text(trace, result);
    std::fwrite(text.data(), 1, text.size(), stdout);
    return;
  }
  const bool json = options.format == Format::kJson;
  print_output(options.format,
               json ? Table{} : imported_replay_rows(trace, result),
               json ? imported_replay_json(trace, result, options.step)
                    : nlohmann::ordered_json{});
}

}  // namespace

Result<int> replay_imported(Trace recorded,
                            const ImportedReplayOptions& options) {
  const AlignedTrace aligned = AlignedTrace::align(std::move(recorded));
  const Trace& trace = aligned.trace();
  Result<ImportedReplay> result = run_replay(aligned, options);
  if (!result) return pass(result.error());
  if (!options.validate_path.empty()) {
    const Result<int64_t> measured =
        measured_in(options.validate_path, options.step);
    if (!measured) return pass(measured.error());
    result->reference_ns = *measured;
  } else if (result->graph.timed && options.what_ifs.empty()) {
    result->reference_ns = result->measured_ns;
  }
  if (!options.chrome_path.empty()) {
    const Status written = write_chrome(
        imported_replay_timeline(trace, *result), options.chrome_path);
    if (!written) return pass(written.error());
    fmt::print(stderr, "wrote {}; open it in https://ui.perfetto.dev\n",
               options.chrome_path);
  }
  print(trace, *result, options);
  for (const std::string& warning : trace.warnings) {
    fmt::print(stderr, "reprise replay: warning: {}\n", warning);
  }
  for (const std::string& note : result->notes) {
    fmt::print(stderr, "reprise replay: {}\n", note);
  }
  return kExitOk;
}

}  // namespace reprise
