// reprise replay: predicts the step time of a recorded program, under its own
// plan or another, or of an imported trace, and compares it with a measurement.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "cli/command.h"
#include "cli/flags.h"
#include "cli/output.h"
#include "cli/predicted_timeline.h"
#include "cli/replay_imported.h"
#include "costmodel/cost_database.h"
#include "data/program/lowered_program.h"
#include "data/trace/step_times.h"
#include "replay/analysis/breakdown.h"
#include "replay/simulate/replay.h"
#include "replay/simulate/run_model.h"
#include "replay/simulate/what_if.h"

namespace reprise {
namespace {

using Json = nlohmann::ordered_json;

struct Prediction {
  RunModel model;
  std::vector<ClockAlignment> clocks;
  Replay replay;
  std::vector<Breakdown> ranks;        ///< Predicted.
  std::optional<int64_t> measured_ns;  ///< Of the plan that was replayed.

  std::optional<double> error() const {
    if (!measured_ns || *measured_ns <= 0) return std::nullopt;
    return static_cast<double>(replay.step_time_ns) /
               static_cast<double>(*measured_ns) -
           1;
  }
};

Json rank_json(const Breakdown& rank) {
  return {{"compute_ns", rank.compute_ns},
          {"communication_ns", rank.communication_ns},
          {"exposed_ns", rank.exposed_ns},
          {"idle_ns", rank.idle_ns}};
}

Json path_json(const Replay& replay, const Schedule& schedule) {
  Json path = Json::array();
  for (const PathEntry& entry : replay.critical_path) {
    const bool named = entry.kind == PathKind::kUnit;
    path.push_back({{"unit", named ? schedule.units[entry.origin].name
                                   : std::string(name_of(entry.kind))},
                    {"kind", name_of(entry.kind)},
                    {"rank", entry.rank},
                    {"start_ns", entry.start_ns},
                    {"duration_ns", entry.duration_ns}});
  }
  return path;
}

Json costs_json(const RunModel& model) {
  const CostModel& costs = model.costs;
  Json links = Json::object();
  for (const auto& [key, price] : costs.collectives) {
    links[key] = {{"latency_ns", price.latency_ns},
                  {"bandwidth_bytes_per_s", price.bandwidth_bytes_per_s},
                  {"burst_bytes", price.burst_bytes},
                  {"residual", price.residual}};
  }
  return {{"collectives", links},
          {"slowdown",
           {{"library", costs.contention.library},
            {"kernel", costs.contention.kernel},
            {"collective", costs.contention.collective}}},
          {"dispatch_ns", costs.dispatch_ns},
          {"feed_ns", costs.feed_ns},
          {"compute_wake_ns", costs.compute_wake_ns},
          {"communication_wake_ns", costs.communication_wake_ns},
          {"unexplained_ns", costs.unexplained_ns},
          {"roofline_residual", costs.roofline_residual}};
}

Json json_of(const Prediction& prediction, const Schedule& schedule) {
  const Replay& replay = prediction.replay;
  Json json = {{"schema", "reprise.replay/1"}};
  json["step_time_ns"] = {{"predicted", replay.step_time_ns},
                          {"measured", nullptr}};
  json["error"] = nullptr;
  if (prediction.error()) {
    json["step_time_ns"]["measured"] = *prediction.measured_ns;
    json["error"] = *prediction.error();
  }
  json["recorded"] = {{"predicted_ns", prediction.model.predicted_ns},
                      {"measured_ns", prediction.model.measured_ns}};
  json["ranks"] = Json::array();
  for (const Breakdown& rank : prediction.ranks) {
    json["ranks"].push_back(rank_json(rank));
  }
  json["sources"] = {{"measured", replay.sources.measured},
                     {"calibrated", replay.sources.calibrated},
                     {"modelled", replay.sources.modelled},
                     {"unexplained", replay.sources.unexplained}};
  json["costs"] = costs_json(prediction.model);
  json["clocks"] = Json::array();
  for (const ClockAlignment& clock : prediction.clocks) {
    json["clocks"].push_back({{"rank", clock.rank},
                              {"offset_ns", clock.offset_ns},
                              {"drift_ppm", clock.drift_ppm},
                              {"residual_ns", clock.residual_ns}});
  }
  json["critical_path"] = path_json(replay, schedule);
  return json;
}

std::string nanoseconds_text(int64_t time_ns) {
  return duration_text(static_cast<double>(time_ns));
}

Table table_of(const Prediction& prediction) {
  Table table;
  table.headings = {"rank", "compute",   "communication", "exposed",
                    "idle", "predicted", "measured",      "error"};
  const std::optional<double> error = prediction.error();
  for (size_t rank = 0; rank < prediction.ranks.size(); ++rank) {
    const Breakdown& part = prediction.ranks[rank];
    table.rows.push_back(
        {std::to_string(rank), nanoseconds_text(part.compute_ns),
         nanoseconds_text(part.communication_ns),
         nanoseconds_text(part.exposed_ns), nanoseconds_text(part.idle_ns),
         nanoseconds_text(prediction.replay.step_time_ns),
         error ? nanoseconds_text(*prediction.measured_ns) : "-",
         error ? percent_text(*error) : "-"});
  }
  return table;
}

void print_sources(const Replay& replay) {
  fmt::print(stderr,
             "prices of the critical path: {:.1f} % measured, {:.1f} % "
             "calibrated, {:.1f} % modelled, {:.1f} % unexplained gaps\n",
             100 * replay.sources.measured, 100 * replay.sources.calibrated,
             100 * replay.sources.modelled, 100 * replay.sources.unexplained);
}

/// What the critical path is made of, and its longest units.
void print_path(const Replay& replay, const Schedule& schedule) {
  constexpr size_t kLongest = 3;
  const auto part_of = [&](const PathEntry& entry) -> const char* {
    switch (entry.kind) {
      case PathKind::kDispatch:
        return "dispatch and wake-ups";
      case PathKind::kFeed:
        return "feed";
      case PathKind::kOverhead:
        return "step end";
      default:
        break;
    }
    const Unit& unit = schedule.units[entry.origin];
    return unit.stream == Stream::kCompute ? "compute" : "collectives";
  };
  std::map<std::string, int64_t> parts;
  std::vector<std::pair<int64_t, std::string>>
      units;  // Negative: longest first.
  for (const PathEntry& entry : replay.critical_path) {
    parts[part_of(entry)] += entry.duration_ns;
    if (entry.kind != PathKind::kUnit) continue;
    units.emplace_back(-entry.duration_ns, schedule.units[entry.origin].name);
  }
  std::sort(units.begin(), units.end());
  if (units.size() > kLongest) units.resize(kLongest);
  std::vector<std::string> shares, longest;
  for (const auto& [part, time_ns] : parts) {
    shares.push_back(fmt::format("{:.1f} % {}",
                                 100 * static_cast<double>(time_ns) /
                                     static_cast<double>(replay.step_time_ns),
                                 part));
  }
  for (const auto& [negative_ns, name] : units) {
    longest.push_back(
        fmt::format("{} {}", name, nanoseconds_text(-negative_ns)));
  }
  fmt::print(stderr, "critical path: {}; longest: {}\n",
             fmt::join(shares, ", "), fmt::join(longest, ", "));
}

class ReplayCommand : public Command {
 public:
  std::string name() const override { return "replay"; }
  std::string summary() const override {
    return "Predict the step time of a recorded run, under changes";
  }

  void add_flags(Flags& flags) override {
    flags
        .add_option("trace", trace_path_,
                    "trace of `reprise train` or `import`")
        .required();
    flags.add_option("--plan", plan_path_,
                     "plan to predict (default: the recorded one)");
    flags.add_option("--what-if", what_ifs_, "change something (repeatable)")
        .repeatable();
    flags.add_option("--step", step_, "only this step (of an imported trace)");
    flags.add_option(
        "--validate", validate_path_,
        "trace whose measured step the prediction is held against");
    flags.add_option("--costs", costs_path_,
                     "cost database of `reprise calibrate`");
    flags.add_option("--chrome", chrome_path_,
                     "write both timelines here (.json, .json.gz)");
    flags.add_flag("--force", force_, "replace an existing timeline");
    flags.add_format(format_);
    std::string forms = kWhatIfForms;
    forms.insert(forms.find("device="), "\n          ");
    flags.footer("What-ifs: " + forms);
  }

  Result<int> run() override {
    if (!chrome_path_.empty()) {
      const Status writable = check_output(chrome_path_, force_);
      if (!writable) return pass(writable.error());
    }
    Result<Trace> trace = read_trace(trace_path_);
    if (!trace) return pass(trace.error());
    if (trace->program_text.empty()) return run_imported(*std::move(trace));
    if (step_) {
      return fail(ErrorKind::kInvalid,
                  "--step is for imported traces; {} embeds its program, of "
                  "which every step is the same",
                  trace_path_);
    }
    return run_program(*std::move(trace));
  }

 private:
  Result<int> run_imported(Trace trace) const {
    const std::string& given = plan_path_.empty() ? costs_path_ : plan_path_;
    if (!given.empty()) {
      return fail(ErrorKind::kInvalid,
                  "{} {}: {} embeds no program to apply it to; an imported "
                  "trace is replayed with --what-if alone",
                  plan_path_.empty() ? "--costs" : "--plan", given,
                  trace_path_);
    }
    return replay_imported(std::move(trace), {.path = trace_path_,
                                              .validate_path = validate_path_,
                                              .chrome_path = chrome_path_,
                                              .what_ifs = what_ifs_,
                                              .step = step_,
                                              .format = format_});
  }

  Result<int> run_program(Trace recorded) const {
    const Result<LoweredProgram> program =
        lowered_program_of(recorded, trace_path_, "");
    if (!program) return pass(program.error());
    Result<Schedule> other = plan_path_.empty() ? Result<Schedule>(Schedule{})
                                                : lower_plan(*program);
    if (!other) return pass(other.error());
    const Schedule& schedule = plan_path_.empty() ? program->schedule : *other;
    const AlignedTrace aligned = AlignedTrace::align(std::move(recorded));
    const Trace& trace = aligned.trace();
    const Result<Prediction> prediction = predict(aligned, *program, schedule);
    if (!prediction) return pass(prediction.error());
    if (!chrome_path_.empty()) {
      const Status written =
          write_chrome(comparison_timeline(trace, schedule, prediction->replay),
                       chrome_path_);
      if (!written) return pass(written.error());
    }
    print_output(format_, table_of(*prediction),
                 json_of(*prediction, schedule));
    if (format_ == Format::kTable) {
      print_path(prediction->replay, schedule);
      print_sources(prediction->replay);
    }
    return kExitOk;
  }

  /// The recorded program under the plan of --plan.
  Result<Schedule> lower_plan(const LoweredProgram& program) const {
    const Result<Plan> plan = load_plan(plan_path_);
    if (!plan) return pass(plan.error());
    if (plan->ranks != program.plan.ranks) {
      return fail(ErrorKind::kInvalid,
                  "{}: the plan is for {} ranks, the run has {}", plan_path_,
                  plan->ranks, program.plan.ranks);
    }
    Result<Schedule> schedule = lower_under(program, *plan);
    if (!schedule) {
      // The plan's groups may be at fault, or an op of the program.
      return pass(schedule.error(), schedule.error().kind == ErrorKind::kInvalid
                                        ? plan_path_
                                        : trace_path_);
    }
    return schedule;
  }

  Result<Prediction> predict(const AlignedTrace& aligned,
                             const LoweredProgram& program,
                             const Schedule& schedule) const {
    std::vector<WhatIf> what_ifs;
    for (const std::string& text : what_ifs_) {
      Result<WhatIf> what_if = parse_what_if(text);
      if (!what_if) return pass(what_if.error());
      what_ifs.push_back(*std::move(what_if));
    }
    const Result<std::vector<Measurement>> known =
        load_measurements(costs_path_, aligned.trace().environment);
    if (!known) return pass(known.error());
    Result<RunModel> model = model_run(aligned, program.schedule, *known);
    if (!model) return pass(model.error(), trace_path_);
    Prediction prediction;
    prediction.model = *std::move(model);
    prediction.clocks = aligned.clocks();
    CostModel costs = prediction.model.costs;
    for (const WhatIf& what_if : what_ifs) apply_what_if(what_if, costs);
    PricedSchedule priced = price_schedule(schedule, costs);
    for (const WhatIf& what_if : what_ifs) {
      const Status applied = apply_what_if(what_if, &program.module, priced);
      if (!applied) return pass(applied.error());
    }
    prediction.replay = replay_step(priced);
    for (const std::vector<UnitTime>& times : prediction.replay.times) {
      prediction.ranks.push_back(
          break_down(schedule, times, prediction.replay.step_time_ns));
    }
    if (!validate_path_.empty()) {
      const Result<Trace> other = read_trace(validate_path_);
      if (!other) return pass(other.error());
      const Result<int64_t> measured = measured_step_time(*other);
      if (!measured) return pass(measured.error(), validate_path_);
      prediction.measured_ns = *measured;
    } else if (plan_path_.empty() && what_ifs.empty()) {
      prediction.measured_ns = prediction.model.measured_ns;
    }
    return prediction;
  }

  std::string trace_path_, plan_path_, validate_path_, costs_path_;
  std::string chrome_path_;
  std::optional<int32_t> step_;
  std::vector<std::string> what_ifs_;
  bool force_ = false;
  Format format_ = Format::kTable;
};

}  // namespace

std::unique_ptr<Command> make_replay_command() {
  return std::make_unique<ReplayCommand>();
}

}  // namespace reprise
