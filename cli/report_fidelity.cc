#include "cli/report_fidelity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "data/median.h"
#include "data/number_text.h"
#include "data/schedule/timed_schedule.h"
#include "data/trace/recording_cost.h"
#include "replay/simulate/replay.h"
#include "replay/simulate/run_model.h"
#include "replay/simulate/trace_replay.h"

namespace reprise {
namespace {

constexpr size_t kMostEvents = 1'000'000;

/// Collects points and what they miss by.
class FidelityBuilder {
 public:
  explicit FidelityBuilder(std::vector<std::string> groups) {
    made_.plot.points.resize(groups.size());
    made_.plot.groups = std::move(groups);
  }

  void add(size_t group, int64_t measured_ns, int64_t predicted_ns,
           const std::string& name) {
    if (measured_ns <= 0 || predicted_ns <= 0) return;
    const auto measured = static_cast<double>(measured_ns);
    const auto predicted = static_cast<double>(predicted_ns);
    made_.plot.points[group].push_back({measured, predicted});
    const double error = predicted / measured - 1;
    errors_.push_back(std::abs(error));
    if (std::abs(error) <= std::abs(worst_)) return;
    worst_ = error;
    worst_name_ = name;
  }

  Fidelity take(const std::string& title, const std::string& what) {
    if (errors_.empty()) return {};
    made_.plot.title = title;
    made_.caption = fmt::format("{} Median error {}", what,
                                share_text(lower_median(errors_)));
    made_.caption += worst_name_.empty()
                         ? "."
                         : fmt::format(", the largest {} ({}).",
                                       percent_text(worst_), worst_name_);
    return std::move(made_);
  }

 private:
  Fidelity made_;
  std::vector<double> errors_;
  double worst_ = 0;
  std::string worst_name_;
};

/// [rank][unit] Durations in timed steps.
std::vector<std::vector<std::vector<int64_t>>> recorded_units(
    const Trace& trace, size_t units) {
  std::set<std::pair<uint32_t, int32_t>> timed;
  for (const StepMark& mark : trace.steps) {
    if (!mark.warmup) timed.emplace(mark.rank, mark.step);
  }
  const int64_t event_ns = event_cost_ns(trace);
  std::vector<std::vector<std::vector<int64_t>>> found(
      trace.ranks.size(), std::vector<std::vector<int64_t>>(units));
  for (const Event& event : trace.events) {
    if (event.unit < 0 || static_cast<size_t>(event.unit) >= units) continue;
    if (event.rank >= found.size() || !timed.contains({event.rank, event.step}))
      continue;
    found[event.rank][static_cast<size_t>(event.unit)].push_back(
        std::max<int64_t>(0, event.end_ns - event.start_ns - event_ns));
  }
  return found;
}

Fidelity of_units(const AlignedTrace& aligned, const LoweredProgram& program) {
  const TimedSchedule timed(program.schedule, aligned.trace().environment);
  const Schedule& schedule = timed.schedule();
  const Result<RunModel> model = model_run(aligned, program.schedule);
  if (!model) return {};
  const Result<Replay> replay =
      replay_step(price_schedule(schedule, model->costs), &program.module, {});
  if (!replay) return {};
  FidelityBuilder builder({"compute", "communication with its wait"});
  const auto recorded = recorded_units(aligned.trace(), schedule.units.size());
  const size_t ranks = std::min(recorded.size(), replay->times.size());
  for (size_t rank = 0; rank < ranks; ++rank) {
    for (size_t unit = 0; unit < schedule.units.size(); ++unit) {
      if (recorded[rank][unit].empty()) continue;
      const UnitTime& time = replay->times[rank][unit];
      const Unit& described = schedule.units[unit];
      builder.add(described.stream == Stream::kCommunication ? 1 : 0,
                  lower_median(recorded[rank][unit]),
                  time.end_ns - time.start_ns,
                  fmt::format("{} on rank {}", described.name,
                              aligned.trace().ranks[rank].rank));
    }
  }
  return builder.take("Predicted beside measured, by unit",
                      "A point is a unit on a rank: its median over steps "
                      "beside its replay under the prices fitted to this "
                      "run.");
}

Fidelity of_steps(const AlignedTrace& aligned) {
  const TraceByRank& by_rank = aligned.by_rank();
  if (by_rank.event_count() > kMostEvents || by_rank.is_packed()) return {};
  const Result<TimedGraph> graph = build_trace_graph(aligned);
  if (!graph || !graph->timed) return {};
  const Result<TraceReplay> replay =
      replay_trace(NodeFacts(by_rank), *graph, {});
  if (!replay) return {};
  FidelityBuilder builder({"step on a rank"});
  for (const ReplayedStep& step : replay->steps) {
    builder.add(0, step.measured_ns, step.predicted_ns,
                fmt::format("step {} on rank {}", step.step,
                            aligned.frame().ranks[step.rank].rank));
  }
  return builder.take("Predicted beside measured, by step",
                      "A point is a step on a rank beside its replay from "
                      "the graph that was inferred.");
}

}  // namespace

Fidelity fidelity_of(const AlignedTrace& aligned,
                     const LoweredProgram* program) {
  return program != nullptr ? of_units(aligned, *program) : of_steps(aligned);
}

}  // namespace reprise
