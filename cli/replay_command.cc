// reprise replay: predicts the step time of a recorded program, under its own
// plan or another, or of an imported trace, and compares it with a measurement.
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/open_trace.h"
#include "cli/replay_report.h"

namespace reprise {
namespace {

class ReplayCommand : public Command {
 public:
  std::string name() const override { return "replay"; }
  std::string summary() const override {
    return "Predict the step time of a recorded run, under changes";
  }

  void add_flags(Flags& flags) override {
    flags
        .add_option("trace", options_.trace_path,
                    "a trace, or what `import` takes")
        .required();
    flags.add_option("--plan", options_.plan_path,
                     "plan to predict (default: the recorded one)");
    flags
        .add_option("--what-if", options_.what_ifs,
                    "change something (repeatable)")
        .repeatable();
    flags.add_option("--step", options_.step,
                     "only this step (of an imported trace)");
    flags.add_option(
        "--validate", options_.validate_path,
        "trace whose measured step the prediction is held against");
    flags.add_option("--costs", options_.costs_path,
                     "cost database of `reprise calibrate`");
    flags.add_option("--chrome", options_.chrome_path,
                     "write both timelines here (.json, .json.gz)");
    flags.add_flag("--force", force_, "replace an existing timeline");
    flags.add_format(options_.format);
    std::string forms = kWhatIfForms;
    for (const char* form : {" rank:", " straggler="})
      forms.replace(forms.find(form), 1, "\n          ");
    flags.footer("What-ifs: " + forms);
  }

  Result<int> run() override {
    options_.existing = existing_with(force_);
    const ReplayOptions& given = options_;
    if (!given.chrome_path.empty()) {
      const Status writable = check_output(given.chrome_path, force_);
      if (!writable) return pass(writable.error());
    }
    // A timeline shows all ranks at once.
    const Result<AlignedTrace> trace = read_aligned_shown(
        given.trace_path,
        given.chrome_path.empty() ? TraceByRank::kMostEvents : SIZE_MAX);
    if (!trace) return pass(trace.error());
    const bool imported = trace->frame().program_text.empty();
    if (imported && !(given.plan_path + given.costs_path).empty()) {
      return fail(ErrorKind::kInvalid,
                  "{} {}: {} embeds no program to apply it to; an imported "
                  "trace is replayed with --what-if alone",
                  given.plan_path.empty() ? "--costs" : "--plan",
                  given.plan_path.empty() ? given.costs_path : given.plan_path,
                  given.trace_path);
    }
    if (!imported && given.step) {
      return fail(ErrorKind::kInvalid,
                  "--step is for imported traces; {} embeds its program, of "
                  "which every step is the same",
                  given.trace_path);
    }
    const Status done = imported ? replay_imported(*trace, given)
                                 : replay_program(*trace, given);
    if (!done) return pass(done.error());
    return kExitOk;
  }

 private:
  ReplayOptions options_;
  bool force_ = false;
};

}  // namespace

std::unique_ptr<Command> make_replay_command() {
  return std::make_unique<ReplayCommand>();
}

}  // namespace reprise
