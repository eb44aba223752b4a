#include "replay/analysis/analysis.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "data/integers.h"
#include "data/io/decimal.h"
#include "data/parallel.h"
#include "data/schedule/timed_schedule.h"
#include "replay/analysis/cut_steps.h"
#include "replay/analysis/negotiations.h"
#include "replay/analysis/no_timeline.h"
#include "replay/analysis/ranks_apart.h"
#include "replay/graph/trace_graph.h"
#include "replay/simulate/replay.h"
#include "replay/simulate/run_model.h"

namespace reprise {
namespace {

Status check(const TraceByRank& by_rank, const AnalysisOptions& options) {
  const Trace& trace = by_rank.frame();
  if (const std::string lacks = what_no_timeline_has(by_rank); !lacks.empty())
    return fail(ErrorKind::kUnsupported, "{}", lacks);
  if (!options.step) return {};
  std::set<int32_t> steps;
  for (const StepMark& mark : trace.steps) steps.insert(mark.step);
  if (steps.contains(*options.step)) return {};
  if (steps.empty()) {
    return fail(ErrorKind::kInvalid, "step {}: the trace marks no steps",
                *options.step);
  }
  return fail(ErrorKind::kInvalid, "step {}: the trace has steps {} to {}",
              *options.step, *steps.begin(), *steps.rbegin());
}

/// The range that marks the step, if the trace kept it.
std::string name_of_step(const Trace& trace, const StepMark& mark) {
  auto event = std::partition_point(trace.events.begin(), trace.events.end(),
                                    [&](const Event& e) {
                                      return std::tie(e.rank, e.start_ns) <
                                             std::tie(mark.rank, mark.start_ns);
                                    });
  for (; event != trace.events.end() && event->rank == mark.rank &&
         event->start_ns == mark.start_ns;
       ++event) {
    const std::string& name = trace.text(event->name);
    if (event->end_ns == mark.end_ns && event->kind == EventKind::kAnnotation &&
        name.ends_with(std::to_string(mark.step))) {
      return name;
    }
  }
  return fmt::format("step {}", mark.step);
}

/// `own`: the step as the device keeps it.
StepAnalysis analyze_step(const StepMark& mark, const StepMark& own,
                          const DeviceUnions& unions, const DeviceGaps& gaps) {
  StepAnalysis step;
  step.mark = mark;
  step.window = unions.within(own.start_ns, own.end_ns);
  step.idle = gaps.within(own.start_ns, own.end_ns);
  step.host = unions.within(mark.start_ns, mark.end_ns);
  step.host_idle = gaps.within(mark.start_ns, mark.end_ns);
  return step;
}

/// `steps`: device_steps of the rank. `cut`: those of which work lacks.
RankAnalysis analyze_rank(const Trace& trace, const RankWork& work,
                          const std::vector<StepMark>& steps,
                          const std::vector<bool>& cut,
                          const AnalysisOptions& options) {
  RankAnalysis rank;
  rank.rank = work.rank;
  rank.host_only = work.host_only;
  const DeviceUnions unions(work);
  const DeviceGaps gaps(work);
  rank.window = unions.whole();
  const std::vector<Breakdown> launched = break_down_launched(work);
  for (size_t i = 0; i < work.steps.size(); ++i) {
    const StepMark& mark = work.steps[i];
    const bool chosen = options.step == mark.step;
    if (options.step ? !chosen : mark.warmup || cut[i]) continue;
    StepAnalysis step = analyze_step(mark, steps[i], unions, gaps);
    if (chosen) rank.window = step.window;
    step.name = name_of_step(trace, mark);
    step.launched = launched[i];
    if (i + 1 < work.steps.size()) {
      step.iteration_ns = work.steps[i + 1].start_ns - mark.start_ns;
    }
    rank.steps.push_back(std::move(step));
  }
  const int64_t end_ns = rank.window.window_start_ns + rank.window.window_ns;
  rank.idle = gaps.within(rank.window.window_start_ns, end_ns);
  rank.streams = stream_idle(work, unions, rank.window.window_start_ns, end_ns);
  rank.launches = launch_statistics(work, WorkScope{.step = options.step});
  return rank;
}

/// Which events the chosen step launched, of all ranks.
class HeldEvents {
 public:
  HeldEvents(const TraceByRank& trace, const WorkScope& scope)
      : scope_(scope),
        held_(scope.step ? trace.event_count() : size_t{0}, false) {}

  void add(const RankEvents& events, const RankWork& work) {
    if (!scope_.step) return;
    for (const DeviceEvent& event : work.events) {
      held_[events.number(event.event)] = scope_.holds(work, event);
    }
  }
  /// Collectives of which it launched a member.
  std::vector<uint32_t> collectives(const CollectiveMatching& matching) const {
    std::vector<uint32_t> places;
    for (uint32_t i = 0; i < matching.collectives.size(); ++i) {
      const auto& members = matching.collectives[i].members;
      if (std::any_of(members.begin(), members.end(),
                      [&](const CollectiveMember& member) {
                        return !scope_.step || held_[member.event];
                      })) {
        places.push_back(i);
      }
    }
    return places;
  }

 private:
  const WorkScope& scope_;
  std::vector<bool> held_;  ///< [event]; empty: all.
};

void add_collectives(const Trace& trace, const HeldEvents& held,
                     Analysis& analysis) {
  for (const MatchedCollective& collective : analysis.matching.collectives) {
    analysis.times.push_back(times_of(collective, trace));
  }
  analysis.collectives = held.collectives(analysis.matching);
  analysis.stragglers = find_stragglers(trace, analysis.matching,
                                        analysis.times, analysis.collectives);
  for (const std::string& note : analysis.matching.notes) {
    analysis.remarks.push_back(note);
  }
}

/// [rank][unit] The event that ran it in a step, or kNoEvent.
std::vector<std::vector<uint32_t>> events_of_units(const Trace& trace,
                                                   const Schedule& program,
                                                   int32_t step) {
  std::vector<std::vector<uint32_t>> events(
      trace.ranks.size(),
      std::vector<uint32_t>(program.units.size(), DeviceEvent::kNoEvent));
  for (uint32_t place = 0; place < trace.events.size(); ++place) {
    const Event& event = trace.events[place];
    const size_t unit = static_cast<size_t>(event.unit);
    if (event.step != step || event.unit < 0) continue;
    if (event.rank >= events.size() || unit >= program.units.size()) continue;
    events[event.rank][unit] = place;
  }
  return events;
}

/// The path of the program's replay, placed where the step was recorded.
Status add_program_path(const AlignedTrace& recorded, const Schedule& whole,
                        int32_t step, Analysis& analysis) {
  const Result<RunModel> model = model_run(recorded, whole);
  if (!model) return pass(model.error());
  const TimedSchedule timed(whole, recorded.trace().environment);
  const Schedule& program = timed.schedule();
  const Replay replay = replay_step(price_schedule(program, model->costs));
  const auto events = events_of_units(recorded.trace(), program, step);
  const int64_t start_ns = step_start_ns(recorded.trace(), step);
  std::vector<PathEntry> path;
  for (PathEntry entry : replay.critical_path) {
    if (entry.rank >= events.size()) continue;
    entry.origin = events[entry.rank][entry.origin];
    if (entry.origin == DeviceEvent::kNoEvent) {
      return fail(ErrorKind::kInvalid, "step {} lacks units of its program",
                  step);
    }
    entry.start_ns = saturating_add(entry.start_ns, start_ns);
    path.push_back(entry);
  }
  analysis.critical_path = CriticalPath(std::move(path), step);
  return {};
}

/// Of the graph that recorded times suggest.
Status add_recorded_path(const AlignedTrace& recorded,
                         const std::optional<int32_t>& step,
                         Result<TimedGraph> graph, Analysis& analysis) {
  if (!graph) return pass(graph.error());
  analysis.graph_times = evaluate(*graph);
  analysis.critical_path =
      CriticalPath(critical_path(*graph, analysis.graph_times,
                                 NodeFacts(recorded.by_rank())),
                   step);
  analysis.graph = *std::move(graph);
  return {};
}

/// Which step the critical path is of.
std::optional<int32_t> choose_step(const Trace& trace,
                                   const AnalysisOptions& options) {
  if (options.step) return options.step;
  const std::optional<TypicalStep> typical = typical_step(trace);
  return typical ? std::optional(typical->step) : std::nullopt;
}

/// `chosen`: by choose_step.
void add_step_times(const std::optional<int32_t>& chosen, bool by_user,
                    Analysis& analysis) {
  if (!by_user) analysis.typical = typical_step(analysis.steps);
  if (analysis.typical) {
    analysis.step_ns = analysis.typical->median_ns;
    analysis.typical->step = chosen.value_or(analysis.typical->step);
  }
  for (const TimedStep& each : analysis.steps) {
    if (each.step != chosen) continue;
    if (analysis.typical) analysis.typical->step_ns = each.step_ns;
    if (by_user) analysis.step_ns = each.step_ns;
  }
}

/// Of collectives that name no group, the job's size alone tells who is away.
void add_unrecorded_remark(const Trace& trace, Analysis& analysis) {
  const auto told = trace.environment.find("world_size");
  if (told == trace.environment.end()) return;
  const int64_t job = parse_integer(told->second).value_or(0);
  const auto recorded = static_cast<int64_t>(trace.ranks.size());
  const bool is_told = std::none_of(
      analysis.collectives.begin(), analysis.collectives.end(),
      [&](uint32_t place) {
        return analysis.matching.collectives[place].communicator.empty();
      });
  if (job <= recorded || is_told) return;
  analysis.lacks_ranks = true;
  analysis.remarks.push_back(fmt::format(
      "{} of the job's {} ranks were recorded: waiting for the others is part "
      "of transfers; no rank among them can be found late, no wait be split "
      "off. Record the other ranks too.",
      recorded, job));
}

void add_incomplete_remark(const Trace& trace, Analysis& analysis) {
  const auto lacks_members = [&](uint32_t place) {
    return analysis.matching.collectives[place].lacks_ranks();
  };
  const auto incomplete = std::count_if(
      analysis.collectives.begin(), analysis.collectives.end(), lacks_members);
  if (incomplete == 0) return add_unrecorded_remark(trace, analysis);
  analysis.remarks.push_back(fmt::format(
      "Ranks that took part in {} of {} collectives are not in the trace: "
      "waits are at least, transfers at most, what is said.",
      incomplete, analysis.collectives.size()));
}

void add_remarks(const Trace& trace, Analysis& analysis) {
  std::string host_only, untimed;
  const auto list = [](std::string& text, uint32_t rank) {
    text += (text.empty() ? "" : ", ") + std::to_string(rank);
  };
  for (const RankAnalysis& rank : analysis.ranks) {
    if (rank.host_only) list(host_only, rank.rank);
  }
  for (const RankInfo& rank : trace.ranks) {
    if (!is_timed(rank)) list(untimed, rank.rank);
  }
  if (!host_only.empty()) {
    analysis.remarks.push_back(
        fmt::format("No device work was recorded on rank {}: compute is the "
                    "operators of its host threads.",
                    host_only));
  }
  if (!untimed.empty()) {
    analysis.remarks.push_back(
        fmt::format("Rank {} has no times and is left out.", untimed));
  }
  int64_t whole_graphs = 0;
  for (const KernelStatistics& kernel : analysis.kernels) {
    const bool whole = kernel.work == WorkClass::kCompute &&
                       trace.text(kernel.name).starts_with(kWholeGraph);
    if (whole) whole_graphs += kernel.count;
  }
  if (whole_graphs > 0) {
    analysis.remarks.push_back(fmt::format(
        "{} launches of CUDA graphs were traced whole: what ran inside, "
        "collectives and waits for other ranks too, counts as compute; profile "
        "with --cuda-graph-trace=node.",
        whole_graphs));
  }
  if (std::optional<std::string> apart = ranks_apart(trace, analysis))
    analysis.remarks.push_back(*std::move(apart));
  add_incomplete_remark(trace, analysis);
}

/// What all that is asked of single ranks comes to.
class RankSums {
 public:
  RankSums(const TraceByRank& by_rank, const AnalysisOptions& options)
      : by_rank_(by_rank),
        options_(options),
        scope_{.step = options.step},
        held_(by_rank, scope_) {}

  void add(uint32_t number, Analysis& analysis) {
    const Trace& trace = by_rank_.frame();
    const RankEvents events = by_rank_.of_rank(number);
    const RankWork work = device_work(trace, number);
    const std::vector<StepMark> steps = device_steps(work);
    const std::vector<bool> cut = cut_.add(trace, work);
    for (size_t at = 0; at < steps.size(); ++at) {
      if (!cut[at]) steps_.push_back(steps[at]);
    }
    if (work.events.empty()) {
      analysis.remarks.push_back(
          fmt::format("Rank {} did no work that was recorded.", number));
      return;
    }
    RankAnalysis rank = analyze_rank(trace, work, steps, cut, options_);
    if (options_.step) {
      analysis.step_ns =
          std::max(analysis.step_ns.value_or(0), rank.window.window_ns);
    }
    analysis.ranks.push_back(std::move(rank));
    if (trace.ranks.size() == 1)
      negotiated_ = find_negotiated_stragglers(events);
    held_.add(events, work);
    kernels_.add(trace, work, scope_);
  }

  void finish(Analysis& analysis) && {
    const Trace& trace = by_rank_.frame();
    add_collectives(trace, held_, analysis);
    if (analysis.stragglers.empty())
      analysis.stragglers = std::move(negotiated_);
    analysis.kernels = std::move(kernels_).statistics(trace);
    analysis.between_steps_ns = between_steps_ns(steps_);
    analysis.steps = complete_steps(trace, std::move(steps_));
    if (std::optional<std::string> cut = cut_.remark())
      analysis.remarks.push_back(*std::move(cut));
    add_remarks(trace, analysis);
  }

 private:
  const TraceByRank& by_rank_;
  const AnalysisOptions& options_;
  const WorkScope scope_;
  HeldEvents held_;
  KernelDurations kernels_;
  std::vector<Straggler> negotiated_;  ///< Where one rank tells of all.
  std::vector<StepMark> steps_;        ///< Of all ranks, by device_steps.
  CutSteps cut_;
};

bool has_step(const std::vector<TimedStep>& steps,
              const std::optional<int32_t>& number) {
  return std::any_of(steps.begin(), steps.end(), [&](const TimedStep& each) {
    return each.step == number;
  });
}

/// `step`: whose critical path is found.
Result<Analysis> analyze_with(const AlignedTrace& recorded,
                              const AnalysisOptions& options,
                              const std::optional<int32_t>& step) {
  const TraceByRank& by_rank = recorded.by_rank();
  const Trace& trace = by_rank.frame();
  Analysis analysis(recorded);
  TraceWindow window;
  if (step) window.step = *step;
  // Beside the rest, for each rank's events to be decoded once.
  std::optional<TraceGraphBuilder> graph;
  const bool replays = options.program != nullptr && step;
  if (options.critical_path && !replays) graph.emplace(recorded, window);
  RankSums sums(by_rank, options);
  for (const RankInfo& rank : trace.ranks) {
    by_rank.of_rank(rank.rank);  // Decodes what both look at.
    // The longer one by this thread: the other core may be decoding the next.
    parallel_for(2, 2, [&](size_t part) {
      if (part == 0 && graph) graph->add_rank();
      if (part == 1 && is_timed(rank)) sums.add(rank.rank, analysis);
    });
  }
  if (analysis.ranks.empty()) {
    return fail(ErrorKind::kUnsupported,
                "no rank has device work or operators: nothing to analyse");
  }
  std::optional<Result<TimedGraph>> built;
  parallel_for(graph ? 2 : 1, 2, [&](size_t part) {
    if (part == 1) return void(built.emplace(std::move(*graph).finish()));
    std::move(sums).finish(analysis);
  });
  add_step_times(step, options.step.has_value(), analysis);
  if (!options.critical_path) return analysis;
  if (replays && add_program_path(recorded, *options.program, *step, analysis))
    return analysis;
  // Where the program cannot be replayed, what was recorded must do.
  const Status found = add_recorded_path(
      recorded, step,
      built ? *std::move(built) : build_trace_graph(recorded, window),
      analysis);
  if (!found) {
    analysis.remarks.push_back(
        fmt::format("No critical path: {}.", found.error().message));
  }
  return analysis;
}

}  // namespace

Result<Analysis> analyze(const AlignedTrace& recorded,
                         const AnalysisOptions& options) {
  if (Status usable = check(recorded.by_rank(), options); !usable) {
    return pass(usable.error());
  }
  const std::optional<int32_t> step = choose_step(recorded.frame(), options);
  Result<Analysis> analysis = analyze_with(recorded, options, step);
  if (!analysis || options.step || has_step(analysis->steps, step))
    return analysis;
  // Its events tell that it was cut, and the graph is built beside them.
  const std::optional<TypicalStep> whole = typical_step(analysis->steps);
  return whole ? analyze_with(recorded, options, whole->step)
               : std::move(analysis);
}

}  // namespace reprise
