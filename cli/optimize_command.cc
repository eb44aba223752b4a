// reprise optimize: finds a better plan for a recorded program, or writes one
// of the baselines that it is compared with.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <map>
#include <optional>
#include <thread>

#include "cli/calibration_run.h"
#include "cli/command.h"
#include "cli/optimize_imported.h"
#include "cli/output.h"
#include "cli/program.h"
#include "costmodel/cost_database.h"
#include "costmodel/fit_costs.h"
#include "data/file.h"
#include "data/median.h"
#include "optimizer/baselines/baselines.h"
#include "optimizer/optimize.h"
#include "replay/simulate/run_model.h"

namespace reprise {
namespace {

using Json = nlohmann::ordered_json;

volatile std::sig_atomic_t interrupted = 0;
extern "C" void note_interrupt(int signal) { interrupted = signal; }

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

class OptimizeCommand : public Command {
 public:
  std::string name() const override { return "optimize"; }
  std::string summary() const override {
    return "Find a faster plan for a recorded program";
  }

  void add_flags(CLI::App& app) override {
    app.add_option("trace", trace_path_,
                   "of `reprise train`, or an import of PyTorch DDP")
        ->required();
    app.add_option("-o,--output", plan_path_, "write the plan here")
        ->required();
    auto* baseline = app.add_option("--baseline", baseline_,
                                    "a baseline: none, xla, ddp[+fusion], "
                                    "horovod[+fusion]")
                         ->check(CLI::IsMember(baseline_names()));
    app.add_option("--plan", fusion_path_,
                   "plan whose fusion a baseline with +fusion has")
        ->needs(baseline);
    std::vector<std::string> passes;
    for (const PassEntry& pass : registered_passes())
      passes.emplace_back(pass.name);
    app.add_option("--only", options_.only,
                   "families of moves: " + pass_names())
        ->delimiter(',')
        ->check(CLI::IsMember(passes));
    auto* limit = app.add_option("--time-limit", time_limit_,
                                 "stop the search after this: 500ms, 10s, 2m");
    app.add_option("--evaluations", evaluations_,
                   "plans priced in the search (default 300)")
        ->check(CLI::Range(int64_t{1}, int64_t{1000000000}))
        ->excludes(limit);
    app.add_option("--memory-limit", options_.memory_limit_bytes,
                   "largest arena of a plan, bytes")
        ->check(CLI::PositiveNumber);
    app.add_option("--costs", costs_path_,
                   "cost database to use and add to; or imported nccl-tests");
    app.add_flag("--no-measure", no_measure_,
                 "price units that never ran by roofline; start no ranks");
    app.add_option("--seed", options_.seed, "of the search (default 0)");
    app.add_option("--threads", options_.threads, "of the search")
        ->check(CLI::Range(1, 1024));
    app.add_flag("--explain", explain_, "say what each stage gained");
    app.add_flag("--force", force_, "replace an existing plan");
    add_format_flag(app, format_);
    options_.threads =
        static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  }

  Result<int> run() override {
    if (const Status set = set_options(); !set) {
      fmt::print(stderr, "reprise optimize: {}\n", set.error().message);
      return kExitUsage;
    }
    const Status writable = check_output(plan_path_, force_);
    if (!writable) return pass(writable.error());
    Result<Trace> trace = read_trace(trace_path_);
    if (!trace) return pass(trace.error());
    if (trace->program_text.empty()) return optimize_buckets(*std::move(trace));
    trace_ = *std::move(trace);
    Result<LoweredProgram> program =
        lowered_program_of(trace_, trace_path_, "");
    if (!program) return pass(program.error());
    program_ = *std::move(program);
    if (const Status known = load_known(); !known) return pass(known.error());
    knows_contention_ = has_contention();
    const Result<CostModel> costs = fit();
    if (!costs) return pass(costs.error(), trace_path_);
    return baseline_.empty() ? search(*costs) : write_baseline(*costs);
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
  Result<int> optimize_buckets(Trace trace) const {
    const bool only_buckets =
        std::all_of(options_.only.begin(), options_.only.end(),
                    [](const std::string& each) { return each == "buckets"; });
    if (!only_buckets || !baseline_.empty()) {
      fmt::print(stderr,
                 "reprise optimize: {} embeds no program: only its buckets can "
                 "be chosen (--only buckets)\n",
                 trace_path_);
      return kExitUsage;
    }
    const Status done =
        optimize_imported(std::move(trace), {.trace_path = trace_path_,
                                             .plan_path = plan_path_,
                                             .costs_path = costs_path_,
                                             .explain = explain_,
                                             .format = format_});
    if (!done) return pass(done.error());
    return kExitOk;
  }

  Status load_known() {
    if (costs_path_.empty()) return {};
    const Result<CostDatabase> database = CostDatabase::load(costs_path_);
    if (!database) return pass(database.error());
    known_ = database->measurements(machine_name(trace_.environment));
    return {};
  }

  Result<CostModel> fit() const {
    Result<RunModel> model = model_run(trace_, program_.schedule, known_);
    if (!model) return pass(model.error());
    return std::move(model->costs);
  }

  /// Runs a plan without communication and fits prices anew. Measurements go to
  /// the trace and the database, where `reprise replay` finds them.
  Result<CostModel> measure(const Plan& plan) {
    if (!knows_contention_) {
      const Status known = measure_recorded();
      if (!known) return pass(known.error());
    }
    LoweredProgram under = program_;
    under.plan = plan;
    Result<Schedule> schedule = lower_under(program_, plan);
    if (!schedule) return pass(schedule.error());
    under.schedule = *std::move(schedule);
    const auto solo = solo_run(under);
    if (!solo) return pass(solo.error());
    keep(*solo);
    return fit();
  }

  /// A solo run, with its times brought to the machine speed of the first one,
  /// told by the library calls that every plan shares.
  Result<std::vector<Measurement>> solo_run(const LoweredProgram& program) {
    const Result<Trace> trace =
        run_recorded(program, true, steps_within(kSoloRun));
    if (!trace) return pass(trace.error());
    Result<std::vector<Measurement>> solo =
        measurements_of(*trace, program.schedule);
    if (!solo) return solo;
    std::vector<double> ratios;
    for (const Measurement& each : *solo) {
      if (each.key.rfind("dot:", 0) != 0 || each.median_ns <= 0) continue;
      const auto first = reference_.find(each.key);
      if (first == reference_.end()) continue;
      ratios.push_back(static_cast<double>(first->second) /
                       static_cast<double>(each.median_ns));
    }
    if (ratios.empty()) {
      for (const Measurement& each : *solo) {
        reference_.emplace(each.key, each.median_ns);
      }
      return solo;
    }
    const double scale = median(std::move(ratios));
    for (Measurement& each : *solo) {
      each.median_ns =
          std::llround(static_cast<double>(each.median_ns) * scale);
    }
    return solo;
  }

  /// What the recorded run itself cannot tell: its units alone, and how compute
  /// and communication slow each other down.
  Status measure_recorded() {
    knows_contention_ = true;
    if (program_.plan.ranks < 2) return {};
    const Result<LoweredProgram> overlapped = overlapped_program(program_);
    if (!overlapped) return pass(overlapped.error());
    const auto solo = solo_run(*overlapped);
    if (!solo) return pass(solo.error());
    keep(*solo);
    const auto link =
        measure_link(trace_, program_, *overlapped, *solo,
                     steps_within(kApartRun), steps_within(kOverlappedRun));
    if (!link) return pass(link.error());
    keep(*link);
    return {};
  }

  void keep(const std::vector<Measurement>& measurements) {
    known_.insert(known_.end(), measurements.begin(), measurements.end());
    measured_.insert(measured_.end(), measurements.begin(), measurements.end());
  }

  /// Whether an earlier calibration told the slow-downs.
  bool has_contention() const {
    const auto tells = [](const Measurement& each) {
      return each.context == kBesideContext;
    };
    return std::any_of(known_.begin(), known_.end(), tells) ||
           std::any_of(trace_.measurements.begin(), trace_.measurements.end(),
                       tells);
  }

  Status keep_measurements() {
    if (measured_.empty()) return {};
    CostDatabase merged;
    merged.merge("", trace_.measurements);
    merged.merge("", measured_);
    trace_.measurements = merged.measurements("");
    Status written = write_trace(trace_, trace_path_);
    if (!written || costs_path_.empty()) return written;
    Result<CostDatabase> database = CostDatabase::load(costs_path_);
    if (!database) return pass(database.error());
    database->merge(machine_name(trace_.environment), measured_);
    return database->store(costs_path_);
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
    table.headings = {"configuration", "predicted"};
    table.rows.push_back(
        {baseline_, duration_text(static_cast<double>(time_ns))});
    print_output(format_, table,
                 {{"schema", "reprise.optimize/1"},
                  {"baseline", baseline_},
                  {"predicted", {{"step_time_ns", time_ns}}}});
    return kExitOk;
  }

  Status write_plan(const Plan& plan) const {
    return write_file_atomically(plan_path_, print_plan(plan));
  }

  /// Nothing where the user forbids it or the run was not on the CPU.
  Measure measure_units() {
    if (no_measure_) return {};
    const Status measurable = check_measurable(trace_, trace_path_);
    if (measurable) return [this](const Plan& plan) { return measure(plan); };
    fmt::print(stderr,
               "reprise optimize: {}: those that never ran are priced by "
               "roofline\n",
               measurable.error().message);
    return {};
  }

  Result<int> search(const CostModel& costs) {
    const InterruptGuard guard;
    options_.should_stop = [] { return interrupted != 0; };
    const Result<OptimizeResult> result = optimize(
        program_.module, program_.plan, costs, options_, measure_units());
    if (!result) return pass(result.error());
    const Status written = write_plan(result->plan);
    if (!written) return pass(written.error());
    print(*result);
    const Status kept = keep_measurements();
    if (!kept) return pass(kept.error());
    return interrupted != 0 ? 128 + static_cast<int>(interrupted)
                            : static_cast<int>(kExitOk);
  }

  void print(const OptimizeResult& result) const {
    const PlanPrediction& predicted = *result.plan.predicted;
    if (explain_) {
      for (const std::string& line : result.log)
        fmt::print(stderr, "{}\n", line);
    }
    Table table;
    table.headings = {"configuration", "predicted", "plan is faster by"};
    const auto plan_ns = static_cast<double>(predicted.step_time_ns);
    Json baselines = Json::object();
    for (const std::string& name : baseline_names()) {
      const auto found = predicted.baselines.find(name);
      if (found == predicted.baselines.end()) continue;
      const auto time_ns = static_cast<double>(found->second);
      table.rows.push_back({name, duration_text(time_ns),
                            fmt::format("{:.2f}x", time_ns / plan_ns)});
      baselines[name] = found->second;
    }
    table.rows.push_back({"plan", duration_text(plan_ns), ""});
    table.rows.push_back(
        {"lower bound",
         duration_text(static_cast<double>(predicted.lower_bound_ns)),
         fmt::format("gap {:.1f} %", 100 * predicted.gap)});
    const Json json = {
        {"schema", "reprise.optimize/1"},
        {"predicted",
         {{"step_time_ns", predicted.step_time_ns},
          {"baselines", baselines},
          {"lower_bound_ns", predicted.lower_bound_ns},
          {"gap", predicted.gap}}},
        {"search",
         {{"seconds", result.seconds}, {"evaluations", result.evaluations}}},
        {"log", result.log}};
    print_output(format_, table, json);
  }

  /// Steps of a measuring run that lasts about `length`, at the recorded pace.
  CalibrationSteps steps_within(std::chrono::nanoseconds length) const {
    constexpr int64_t kWarmup = 2, kFewest = 5, kMost = 60;
    int64_t time_ns = 0, count = 0;
    for (const StepMark& mark : trace_.steps) {
      if (mark.warmup) continue;
      time_ns += mark.end_ns - mark.start_ns;
      count += 1;
    }
    const int64_t step_ns =
        std::max<int64_t>(1, time_ns / std::max<int64_t>(1, count));
    return {
        .steps = kWarmup + std::clamp(length.count() / step_ns, kFewest, kMost),
        .warmup = kWarmup};
  }

  /// Slow-downs vary more than prices: which thread gets the core is chance.
  static constexpr std::chrono::milliseconds kSoloRun{1500}, kApartRun{2500},
      kOverlappedRun{3500};

  std::string trace_path_, plan_path_, baseline_, fusion_path_, time_limit_,
      costs_path_;
  int64_t evaluations_ = 0;
  bool no_measure_ = false, explain_ = false, force_ = false;
  OptimizeOptions options_;
  Format format_ = Format::kTable;
  Trace trace_;
  LoweredProgram program_;
  std::vector<Measurement> known_, measured_;
  std::map<std::string, int64_t> reference_;  ///< First solo run, by key.
  bool knows_contention_ = false;
};

}  // namespace

std::unique_ptr<Command> make_optimize_command() {
  return std::make_unique<OptimizeCommand>();
}

}  // namespace reprise
