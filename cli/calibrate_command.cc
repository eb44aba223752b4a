// reprise calibrate: measures the units of a plan without communication, on all
// ranks at once and in the order (so the cache state) in which they will run.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/calibration_run.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/open_trace.h"
#include "cli/output.h"
#include "costmodel/calibration.h"
#include "costmodel/cost_database.h"
#include "data/program/lowered_program.h"

namespace reprise {
namespace {

using Json = nlohmann::ordered_json;

class CalibrateCommand : public Command {
 public:
  std::string name() const override { return "calibrate"; }
  std::string summary() const override {
    return "Measure the units that a plan would create";
  }

  void add_flags(Flags& flags) override {
    flags
        .add_option("program", subject_,
                    "trace of `reprise train`, which keeps them, or X.hlo")
        .required();
    flags.add_option("--plan", plan_path_,
                     "plan with the units (default: recorded, or identity)");
    flags.add_option("--costs", costs_path_,
                     "cost database to add the measurements to");
    flags.add_option("--data", data_folder_,
                     "folder of its data (default: the program's)");
    flags.add_option("--steps", steps_, "steps to run (default 8)")
        .range(2, 100000);
    flags
        .add_option("--warmup", warmup_,
                    "first steps that do not count (default 2)")
        .not_negative();
    flags
        .add_option("-n,--ranks", ranks_,
                    "ranks to start (default: as many as the program is for)")
        .positive();
    flags.add_format(format_);
  }

  Result<int> run() override {
    if (warmup_ >= steps_) {
      tell(
          "reprise calibrate: --warmup {} leaves no step of --steps "
          "{}\n",
          warmup_, steps_);
      return kExitUsage;
    }
    const bool is_program =
        std::filesystem::path(subject_).extension() == ".hlo";
    if (!is_program && ranks_ != 0) {
      tell(
          "reprise calibrate: a trace says its ranks itself: leave "
          "out -n\n");
      return kExitUsage;
    }
    std::optional<Trace> trace;
    if (!is_program) {
      Result<Trace> read = read_trace_shown(subject_);
      if (!read) return pass(read.error());
      const Status measurable = check_measurable(*read, subject_);
      if (!measurable) return pass(measurable.error());
      trace = *std::move(read);
    }
    const Result<LoweredProgram> program = load(trace);
    if (!program) return pass(program.error());
    const bool as_recorded = trace && plan_path_.empty();
    const Result<Calibration> found =
        calibrate(*program, as_recorded ? &*trace : nullptr, {steps_, warmup_},
                  trainer_runs());
    if (!found) return pass(found.error());
    const Status kept = keep_measurements(
        found->measurements, {.trace = trace ? &*trace : nullptr,
                              .trace_path = subject_,
                              .costs_path = costs_path_,
                              .machine = machine_name(found->environment)});
    if (!kept) return pass(kept.error());
    print(found->measurements);
    return kExitOk;
  }

 private:
  Result<LoweredProgram> load(const std::optional<Trace>& trace) const {
    if (trace)
      return lowered_program_of(*trace, subject_, plan_path_, data_folder_);
    int64_t ranks = ranks_;
    if (ranks == 0) {
      const Result<Manifest> manifest = load_manifest_for(subject_);
      if (!manifest) return pass(manifest.error());
      ranks = manifest->ranks;
    }
    return load_lowered_program(subject_, plan_path_, ranks, {data_folder_});
  }

  void print(const std::vector<Measurement>& measurements) const {
    if (format_ == Format::kCsv) {
      print_output(format_, rows_of(measurements), {});
      return;
    }
    Table table;
    table.headings = {"unit", "median", "spread", "samples"};
    std::vector<Measurement> by_time;
    for (const Measurement& each : measurements) {
      if (each.context == kSoloContext) {
        by_time.push_back(each);
      } else {
        tell("{}: {:.3f}\n", each.unit,
             static_cast<double>(each.median_ns) * 1e-6);
      }
    }
    std::stable_sort(by_time.begin(), by_time.end(),
                     [](const Measurement& a, const Measurement& b) {
                       return a.median_ns * a.samples > b.median_ns * b.samples;
                     });
    Json json = {{"schema", "reprise.calibrate/1"}};
    json["measurements"] = Json::array();
    for (const Measurement& each : measurements) {
      json["measurements"].push_back({{"key", each.key},
                                      {"unit", each.unit},
                                      {"context", each.context},
                                      {"median_ns", each.median_ns},
                                      {"spread_ns", each.spread_ns},
                                      {"samples", each.samples}});
    }
    for (const Measurement& each : by_time) {
      table.rows.push_back({each.unit, time_text(each.median_ns),
                            time_text(each.spread_ns),
                            std::to_string(each.samples)});
    }
    print_output(format_, table, json);
  }

  /// For other programs: as JSON names it.
  static Table rows_of(const std::vector<Measurement>& measurements) {
    Table table;
    table.headings = {"key",       "unit",      "context",
                      "median_ns", "spread_ns", "samples"};
    for (const Measurement& each : measurements) {
      table.rows.push_back(
          {each.key, each.unit, each.context, std::to_string(each.median_ns),
           std::to_string(each.spread_ns), std::to_string(each.samples)});
    }
    return table;
  }

  std::string subject_, plan_path_, costs_path_, data_folder_;
  int64_t steps_ = 8, warmup_ = 2, ranks_ = 0;
  Format format_ = Format::kTable;
};

}  // namespace

std::unique_ptr<Command> make_calibrate_command() {
  return std::make_unique<CalibrateCommand>();
}

}  // namespace reprise
