// `reprise replay` of a trace that embeds its program: prices fitted to the
// recording, the schedule replayed under them; measured and predicted steps
// side by side in one timeline.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "cli/path_output.h"
#include "cli/replay_report.h"
#include "costmodel/cost_database.h"
#include "costmodel/fit_costs.h"
#include "data/program/lowered_program.h"
#include "data/schedule/timed_schedule.h"
#include "data/trace/step_times.h"
#include "replay/simulate/replay.h"
#include "replay/simulate/run_model.h"

namespace reprise {
namespace {

/// The recorded program under the plan of --plan.
Result<LoweredProgram> lower_plan(const LoweredProgram& recorded,
                                  const ReplayOptions& options) {
  Result<Plan> plan = load_plan(options.plan_path);
  if (!plan) return pass(plan.error());
  return lower_replanned(recorded, options.trace_path, *std::move(plan),
                         options.plan_path);
}

// Adds a rank's replay; returns the slice of each unit.
std::vector<uint32_t> add_rank(ChromeTimeline& timeline,
                               const Schedule& schedule, const Replay& replay,
                               uint32_t rank, int64_t origin_ns) {
  const uint32_t process =
      timeline.add_process(fmt::format("rank {} predicted", rank));
  const uint32_t compute = timeline.add_track(process, "compute");
  const uint32_t communication = timeline.add_track(process, "communication");
  std::vector<uint32_t> slices;
  for (size_t unit = 0; unit < schedule.units.size(); ++unit) {
    const UnitTime& time = replay.times[rank][unit];
    const Unit& described = schedule.units[unit];
    const bool collective = described.stream == Stream::kCommunication;
    std::vector<ChromeTimeline::Argument> arguments;
    if (collective) {
      arguments.push_back({"bytes", described.collective.bytes});
      arguments.push_back({"wait_ns", time.wait_ns});
    }
    slices.push_back(timeline.add_slice(
        collective ? communication : compute, described.name,
        collective ? "communication" : "compute", origin_ns + time.start_ns,
        origin_ns + time.end_ns, std::move(arguments)));
  }
  return slices;
}

/// Shows the timed step nearest the median on every rank ("rank 0 measured")
/// and, from the same start, the replay ("rank 0 predicted") with arrows along
/// its critical path. `trace` may be of another plan than `schedule`.
ChromeTimeline comparison_timeline(const Trace& trace, const Schedule& schedule,
                                   const Replay& replay) {
  ChromeTimeline timeline;
  const int32_t step = typical_step(trace).value_or(TypicalStep{}).step;
  for (uint32_t rank = 0; rank < trace.ranks.size(); ++rank) {
    add_measured_rank(
        timeline, trace, rank,
        {.suffix = " measured", .first_step = step, .last_step = step});
  }
  const int64_t start_ns = step_start_ns(trace, step);
  std::vector<std::vector<uint32_t>> slices;
  for (uint32_t rank = 0; rank < replay.times.size(); ++rank) {
    slices.push_back(add_rank(timeline, schedule, replay, rank, start_ns));
  }
  add_path_arrows(
      replay.critical_path,
      [&](const PathEntry& entry) {
        return entry.kind > PathKind::kCollective
                   ? kNoSlice
                   : slices[entry.rank][entry.origin];
      },
      timeline);
  return timeline;
}

ReplayReport report_of(const RunModel& model, const AlignedTrace& aligned,
                       const Schedule& schedule, const Replay& replay) {
  ReplayReport report;
  report.predicted_ns = replay.step_time_ns;
  report.recorded_ns = model.predicted_ns;
  report.measured_ns = model.measured_ns;
  report.tracing_ns = model.tracing_ns;
  report.spread_ns =
      typical_step(aligned.trace()).value_or(TypicalStep{}).spread_ns;
  report.without_gaps_share = 1 - replay.sources.unexplained;
  for (uint32_t rank = 0; rank < replay.times.size(); ++rank) {
    report.ranks.push_back(
        {.rank = rank,
         .parts = break_down(schedule, replay.times[rank], replay.step_time_ns),
         .predicted_ns = replay.step_time_ns,
         .measured_ns = {},
         .unexplained = replay.sources.unexplained});
  }
  report.sources = replay.sources;
  report.path = CriticalPath(replay.critical_path);
  report.clocks = aligned.clocks();
  report.warnings = aligned.trace().warnings;
  report.costs = model.costs;
  report.notes = modelled_collectives(schedule, model.costs);
  for (std::string& assumed : assumed_prices(schedule, model.costs))
    report.notes.push_back(std::move(assumed));
  if (std::string crowd = crowded_host(aligned.trace()); !crowd.empty())
    report.notes.push_back(std::move(crowd));
  return report;
}

}  // namespace

Status replay_program(const AlignedTrace& aligned,
                      const ReplayOptions& options) {
  const Result<LoweredProgram> program =
      lowered_program_of(aligned.trace(), options.trace_path, "");
  if (!program) return pass(program.error());
  const bool replanned = !options.plan_path.empty();
  const Result<LoweredProgram> other =
      replanned ? lower_plan(*program, options) : LoweredProgram{};
  if (!other) return pass(other.error());
  const LoweredProgram& planned = replanned ? *other : *program;
  const TimedSchedule timed(planned.schedule, aligned.trace().environment);
  const Schedule& schedule = timed.schedule();
  const Result<std::vector<WhatIf>> what_ifs = parse_what_ifs(options.what_ifs);
  if (!what_ifs) return pass(what_ifs.error());
  const Result<std::vector<Measurement>> known =
      load_measurements(options.costs_path, aligned.trace().environment);
  if (!known) return pass(known.error());
  const Result<RunModel> model = model_run(aligned, program->schedule, *known);
  if (!model) return pass(model.error(), options.trace_path);
  const Result<Replay> replay = replay_step(
      price_schedule(schedule, model->costs), &planned.module, *what_ifs);
  if (!replay) return pass(replay.error());
  ReplayReport report = report_of(*model, aligned, schedule, *replay);
  report.what_ifs = options.what_ifs;
  if (!options.validate_path.empty()) {
    const Result<int64_t> measured = measured_in(options.validate_path, {});
    if (!measured) return pass(measured.error());
    report.reference_ns = *measured;
  } else if (!replanned && what_ifs->empty()) {
    report.reference_ns = model->measured_ns;
  }
  for (ReplayReport::Rank& rank : report.ranks) {
    rank.measured_ns = report.reference_ns;
  }
  if (!options.chrome_path.empty()) {
    Status written =
        write_chrome(comparison_timeline(aligned.trace(), schedule, *replay),
                     options.chrome_path, options.existing);
    if (!written) return written;
  }
  print_report(options, report, NodeFacts(schedule));
  return {};
}

}  // namespace reprise
