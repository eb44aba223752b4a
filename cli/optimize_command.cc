// reprise optimize: finds a better plan for a recorded program, or writes one
// of the baselines that it is compared with.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "cli/calibration_run.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/open_trace.h"
#include "cli/optimize_imported.h"
#include "cli/output.h"
#include "cli/progress_line.h"
#include "costmodel/cost_database.h"
#include "costmodel/fit_costs.h"
#include "costmodel/measuring_runs.h"
#include "costmodel/plan_calibration.h"
#include "data/file.h"
#include "data/program/lowered_program.h"
#include "optimizer/baselines/baselines.h"
#include "optimizer/optimize.h"
#include "replay/simulate/run_model.h"

namespace reprise {
namespace {

using Json = nlohmann::ordered_json;

volatile std::sig_atomic_t stop_signal = 0;
extern "C" void note_interrupt(int signal) { stop_signal = signal; }

/// While it lives, SIGINT and SIGTERM end the search, not the process.
class InterruptGuard {
 public:
  InterruptGuard() {
    struct sigaction action = {};
    action.sa_handler = note_interrupt;
    sigaction(SIGINT, &action, &old_interrupt_);
    sigaction(SIGTERM, &action, &old_terminate_);
  }
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  ~InterruptGuard() {
    sigaction(SIGINT, &old_interrupt_, nullptr);
    sigaction(SIGTERM, &old_terminate_, nullptr);
  }

 private:
  struct sigaction old_interrupt_ = {}, old_terminate_ = {};
};

/// "10s", "500ms", "2m"; a bare number is seconds.
Result<std::chrono::nanoseconds> parse_time_limit(const std::string& text) {
  size_t used = 0;
  double value = -1;
  try {
    value = std::stod(text, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  const std::string unit = text.substr(used);
  const double seconds = unit == "ms"                   ? 1e-3
                         : unit.empty() || unit == "s"  ? 1.0
                         : unit == "m" || unit == "min" ? 60.0
                                                        : 0.0;
  if (used == 0 || seconds == 0 || !(value > 0) || value * seconds > 1e6) {
    return fail(ErrorKind::kInvalid,
                "--time-limit '{}' is no time; write 500ms, 10s or 2m", text);
  }
  return std::chrono::nanoseconds(static_cast<int64_t>(value * seconds * 1e9));
}

/// How far the plan is above its bound. One stream is never idle, so of one
/// rank the bound is the sum of its units.
std::string gap_text(const Plan& plan) {
  if (plan.ranks > 1)
    return fmt::format("gap {:.1f} %", 100 * plan.predicted->gap);
  tell(
      "reprise optimize: on one rank nothing waits: the bound is what this "
      "plan's own units take, and says nothing of other fusions\n");
  return "any order is as long";
}

/// Names and step times in the order of the table.
std::vector<std::pair<std::string, int64_t>> told_baselines(
    const PlanPrediction& predicted) {
  std::vector<std::pair<std::string, int64_t>> told;
  for (const std::string& name : baseline_names()) {
    const auto found = predicted.baselines.find(name);
    if (found != predicted.baselines.end()) told.push_back(*found);
  }
  return told;
}

Table table_of(const Plan& plan) {
  const PlanPrediction& predicted = *plan.predicted;
  const auto plan_ns = static_cast<double>(predicted.step_time_ns);
  Table table;
  table.headings = {"configuration", "predicted", "plan is faster by"};
  for (const auto& [name, time_ns] : told_baselines(predicted)) {
    table.rows.push_back(
        {name, time_text(time_ns),
         fmt::format("{:.2f}x", static_cast<double>(time_ns) / plan_ns)});
  }
  table.rows.push_back({"plan", time_text(predicted.step_time_ns), ""});
  table.rows.push_back(
      {"lower bound", time_text(predicted.lower_bound_ns), gap_text(plan)});
  return table;
}

/// For other programs: as JSON names it; a bound is no configuration's.
Table rows_of(const PlanPrediction& predicted) {
  Table table;
  table.headings = {"configuration", "step_time_ns", "speed_up"};
  const auto plan_ns = static_cast<double>(predicted.step_time_ns);
  auto all = told_baselines(predicted);
  all.emplace_back("plan", predicted.step_time_ns);
  for (const auto& [name, time_ns] : all) {
    table.rows.push_back(
        {name, std::to_string(time_ns),
         fmt::format("{:g}", static_cast<double>(time_ns) / plan_ns)});
  }
  table.rows.push_back(
      {"lower bound", std::to_string(predicted.lower_bound_ns), ""});
  return table;
}

/// Larger buckets are there for longer.
void tell_memory(int64_t plan_bytes, int64_t recorded_bytes) {
  constexpr double kMore = 1.1;
  const auto plan = static_cast<double>(plan_bytes);
  const auto recorded = static_cast<double>(recorded_bytes);
  if (plan <= kMore * recorded) return;
  tell(
      "reprise optimize: a step of the plan takes {} of memory, {} as "
      "recorded; --memory-limit {} keeps to that\n",
      bytes_text(plan), bytes_text(recorded), recorded_bytes);
}

class OptimizeCommand : public Command {
 public:
  std::string name() const override { return "optimize"; }
  std::string summary() const override {
    return "Find a faster plan for a recorded program";
  }

  void add_flags(Flags& flags) override {
    flags
        .add_option("trace", trace_path_,
                    "of `reprise train` or PyTorch DDP, or a dPRO directory")
        .required();
    flags.add_option("-o,--output", plan_path_, "write the plan here")
        .required();
    Flag baseline = flags
                        .add_option("--baseline", baseline_,
                                    "a baseline: none, xla, ddp[+fusion], "
                                    "horovod[+fusion]")
                        .one_of(baseline_names());
    flags
        .add_option("--plan", fusion_path_,
                    "plan whose fusion a baseline with +fusion has")
        .needs(baseline);
    std::vector<std::string> passes;
    for (const PassEntry& pass : registered_passes())
      passes.emplace_back(pass.name);
    flags
        .add_option("--only", options_.only,
                    "families of moves: " + pass_names())
        .delimiter(',')
        .one_of(passes);
    const Flag limit =
        flags.add_option("--time-limit", time_limit_,
                         "stop the search after this: 500ms, 10s, 2m");
    flags
        .add_option("--evaluations", evaluations_,
                    "plans priced in the search (default 300)")
        .range(1, 1000000000)
        .excludes(limit);
    flags
        .add_option("--memory-limit", options_.memory_limit_bytes,
                    "largest arena of a plan: bytes, 500MB, 1.5GiB")
        .byte_size();
    flags.add_option("--costs", costs_path_,
                     "cost database to use and add to; or imported nccl-tests");
    flags.add_option("--data", data_folder_,
                     "data for measuring (default: made-up batches)");
    flags.add_flag("--keep", keep_, "keep what was measured in the trace too");
    flags.add_flag("--no-measure", no_measure_,
                   "train nothing; else up to 11 runs of 1.5 to 3.5 s each");
    flags.add_option("--seed", options_.seed, "of the search (default 0)");
    flags.add_option("--threads", options_.threads, "of the search")
        .range(1, 1024);
    flags.add_flag("--explain", explain_, "say what each stage gained");
    flags.add_flag("--force", force_, "replace an existing plan");
    flags.add_format(format_);
    options_.threads =
        static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  }

  Result<int> run() override {
    if (const Status set = set_options(); !set) {
      tell("reprise optimize: {}\n", set.error().message);
      return kExitUsage;
    }
    const Status writable = check_output(plan_path_, force_);
    if (!writable) return pass(writable.error());
    Result<OpenedTrace> opened = open_trace(trace_path_);
    if (!opened) return pass(opened.error());
    if (opened->trace.program_text.empty())
      return optimize_buckets(*std::move(opened));
    trace_ = std::move(opened->trace);
    Result<LoweredProgram> program =
        lowered_program_of(trace_, trace_path_, "", data_folder_);
    if (!program) return pass(program.error());
    program_ = *std::move(program);
    if (const Status known = load_known(); !known) return pass(known.error());
    return baseline_.empty() ? search(model_.costs)
                             : write_baseline(model_.costs);
  }

 private:
  Status set_options() {
    if (!time_limit_.empty()) {
      const auto limit = parse_time_limit(time_limit_);
      if (!limit) return pass(limit.error());
      options_.time_limit = *limit;
      options_.evaluations = 1000000;  // The clock ends it.
      options_.inner_evaluations = 1000000000;
    } else if (evaluations_ > 0) {
      options_.evaluations = static_cast<uint64_t>(evaluations_);
      options_.inner_evaluations = 200 * options_.evaluations;
    }
    return {};
  }

  /// Of an imported trace.
  Result<int> optimize_buckets(OpenedTrace opened) const {
    const bool only_buckets =
        std::all_of(options_.only.begin(), options_.only.end(),
                    [](const std::string& each) { return each == "buckets"; });
    if (!only_buckets || !baseline_.empty()) {
      tell(
          "reprise optimize: {} embeds no program: only its buckets can "
          "be chosen (--only buckets)\n",
          trace_path_);
      return kExitUsage;
    }
    const Status done = optimize_imported(std::move(opened.trace),
                                          {.trace_path = trace_path_,
                                           .plan_path = plan_path_,
                                           .trace_sha256 = opened.sha256,
                                           .costs_path = costs_path_,
                                           .existing = existing_with(force_),
                                           .explain = explain_,
                                           .format = format_});
    if (!done) return pass(done.error());
    return kExitOk;
  }

  /// Prices from the recording, and from the database unless they are refused.
  Status load_known() {
    auto known = load_measurements(costs_path_, trace_.environment);
    if (!known) return pass(known.error());
    forget_known({});
    if (Status fitted = fit(); !fitted)
      return pass(fitted.error(), trace_path_);
    if (known->empty()) return {};
    const RunModel alone = model_;
    forget_known(*std::move(known));
    if (Status fitted = fit(); !fitted)
      return pass(fitted.error(), costs_path_);
    const Status better = check_calibration(alone, model_);
    if (better) return {};
    tell("reprise optimize: {}: {}\n", costs_path_, better.error().message);
    forget_known({});
    model_ = alone;
    return {};
  }

  void forget_known(std::vector<Measurement> but) {
    calibration_.emplace(trace_, program_, std::move(but), trainer_runs());
  }

  /// The trace is lent, not copied, and keeps the clocks that it was recorded
  /// with.
  Status fit() {
    std::vector<RankInfo> ranks = trace_.ranks;
    AlignedTrace aligned = AlignedTrace::align(std::move(trace_));
    Result<RunModel> model =
        model_run(aligned, program_.schedule, calibration_->known());
    trace_ = std::move(aligned).take();
    trace_.ranks = std::move(ranks);
    if (!model) return pass(model.error());
    model_ = *std::move(model);
    return {};
  }

  /// Runs a plan without communication and fits prices anew.
  Result<CostModel> measure(const Plan& plan) {
    const Status measured = calibration_->measure(plan);
    if (!measured) return pass(measured.error());
    const RunModel before = model_;
    Status fitted = fit();
    if (fitted) fitted = check_calibration(before, model_);
    if (fitted) return model_.costs;
    calibration_->forget_last();
    model_ = before;
    return pass(fitted.error());
  }

  /// In the database, and in the trace where the user asks for it.
  Status keep_measured() {
    if (calibration_->runs() == 0) return {};
    const bool has_place = keep_ || !costs_path_.empty();
    tell("predicted from one recording and {} calibration runs{}\n",
         calibration_->runs(),
         has_place ? ""
                   : "; their prices are not kept for `reprise replay`: name "
                     "a database by --costs, or keep them in the trace by "
                     "--keep");
    return keep_measurements(calibration_->measured(),
                             {.trace = keep_ ? &trace_ : nullptr,
                              .trace_path = trace_path_,
                              .costs_path = costs_path_,
                              .machine = machine_name(trace_.environment)});
  }

  Result<int> write_baseline(const CostModel& costs) {
    std::optional<Plan> fusion;
    if (!fusion_path_.empty()) {
      Result<Plan> other = load_plan(fusion_path_);
      if (!other) return pass(other.error());
      const Status valid = validate_plan(*other, program_.module);
      if (!valid) return pass(valid.error(), fusion_path_);
      fusion = *std::move(other);
    }
    const Result<Plan> plan =
        baseline_plan(baseline_, program_.module, program_.plan.ranks, costs,
                      fusion ? &*fusion : nullptr);
    if (!plan) return pass(plan.error());
    const Status written = write_plan(*plan);
    if (!written) return pass(written.error());
    const int64_t time_ns = plan->predicted->step_time_ns;
    Table table;
    const bool exact = format_ == Format::kCsv;
    table.headings = {"configuration", exact ? "step_time_ns" : "predicted"};
    table.rows.push_back(
        {baseline_, exact ? std::to_string(time_ns) : time_text(time_ns)});
    print_output(format_, table,
                 {{"schema", "reprise.optimize/1"},
                  {"baseline", baseline_},
                  {"predicted", {{"step_time_ns", time_ns}}}});
    return kExitOk;
  }

  Status write_plan(const Plan& plan) const {
    return write_file_atomically(plan_path_, print_plan(plan),
                                 existing_with(force_));
  }

  /// Nothing where the user forbids it or the run was not on the CPU.
  Measure measure_units() {
    if (no_measure_) return {};
    const Status measurable = check_measurable(trace_, trace_path_);
    if (measurable) return [this](const Plan& plan) { return measure(plan); };
    tell(
        "reprise optimize: {}: those that never ran are priced by "
        "roofline\n",
        measurable.error().message);
    return {};
  }

  Result<int> search(const CostModel& costs) {
    const InterruptGuard guard;
    options_.should_stop = [] { return stop_signal != 0; };
    ProgressLine line;
    options_.watch = line.watcher();
    const Result<OptimizeResult> result = optimize(
        program_.module, program_.plan, costs, options_, measure_units());
    line.erase();
    if (!result) return pass(result.error());
    const Status written = write_plan(result->plan);
    if (!written) return pass(written.error());
    print(*result);
    tell_memory(result->arena_bytes, program_.schedule.arena_bytes);
    if (const std::string crowd = crowded_host(trace_); !crowd.empty())
      tell("reprise optimize: {}\n", crowd);
    const Status kept = keep_measured();
    if (!kept) return pass(kept.error());
    return stop_signal != 0 ? 128 + static_cast<int>(stop_signal)
                            : static_cast<int>(kExitOk);
  }

  void print(const OptimizeResult& result) const {
    const PlanPrediction& predicted = *result.plan.predicted;
    if (explain_) {
      for (const std::string& line : result.log) tell("{}\n", line);
    }
    Json baselines = Json::object();
    for (const auto& [name, time_ns] : told_baselines(predicted))
      baselines[name] = time_ns;
    const Json json = {{"schema", "reprise.optimize/1"},
                       {"predicted",
                        {{"step_time_ns", predicted.step_time_ns},
                         {"baselines", baselines},
                         {"lower_bound_ns", predicted.lower_bound_ns},
                         {"gap", predicted.gap}}},
                       {"search",
                        {{"seconds", result.seconds},
                         {"evaluations", result.evaluations},
                         {"calibration_runs", calibration_->runs()}}},
                       {"log", result.log}};
    print_output(
        format_,
        format_ == Format::kCsv ? rows_of(predicted) : table_of(result.plan),
        json);
  }

  std::string trace_path_, plan_path_, baseline_, fusion_path_, time_limit_,
      costs_path_, data_folder_;
  int64_t evaluations_ = 0;
  bool no_measure_ = false, explain_ = false, force_ = false, keep_ = false;
  RunModel model_;  // Of the recorded run, under what is known so far.
  OptimizeOptions options_;
  Format format_ = Format::kTable;
  Trace trace_;
  LoweredProgram program_;
  std::optional<PlanCalibration> calibration_;
};

}  // namespace

std::unique_ptr<Command> make_optimize_command() {
  return std::make_unique<OptimizeCommand>();
}

}  // namespace reprise
