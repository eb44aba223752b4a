// reprise verify: whether steps changed between two sets of runs, whether a
// plan was in effect, and why its prediction was off.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>

#include "cli/command.h"
#include "cli/flags.h"
#include "cli/output.h"
#include "cli/verify_output.h"
#include "cli/verify_runs.h"

namespace reprise {
namespace {

/// "2%" and "0.02" are the same. Errors: kInvalid.
Result<double> parse_share(const std::string& flag, const std::string& text) {
  char* end = nullptr;
  double value = std::strtod(text.c_str(), &end);
  if (end != text.c_str() && *end == '%') {
    value /= 100;
    ++end;
  }
  if (text.empty() || *end != '\0' || !(value >= 0 && value < 1)) {
    return fail(ErrorKind::kInvalid,
                "{} {}: expected a share such as 99% or 0.02", flag, text);
  }
  return value;
}

Result<std::vector<VerifiedRun>> read_runs(
    const std::vector<std::string>& paths, const Plan* plan) {
  std::vector<VerifiedRun> runs;
  for (const std::string& path : paths) {
    Result<VerifiedRun> run = read_run(path, plan);
    if (!run) return pass(run.error());
    runs.push_back(*std::move(run));
  }
  return runs;
}

/// Says it of files that are given twice on one side.
void remark_on_repeats(const std::string& side,
                       const std::vector<std::string>& paths,
                       RunComparison& comparison) {
  std::set<std::string> seen, told;
  for (const std::string& path : paths) {
    if (seen.insert(path).second || !told.insert(path).second) continue;
    comparison.remarks.push_back(fmt::format(
        "{} names {} more than once: one run told as several makes this look "
        "surer than it is.",
        side, path));
  }
}

std::vector<StepRun> steps_of(const std::vector<VerifiedRun>& runs) {
  std::vector<StepRun> steps;
  steps.reserve(runs.size());
  for (const VerifiedRun& run : runs) steps.push_back(run.run);
  return steps;
}

/// What the plan promised over the runs before: of an imported trace over its
/// recorded step as the same model has it, of a program over what of its
/// baselines ran.
std::optional<double> promised(const Plan& plan,
                               const std::vector<VerifiedRun>& before) {
  if (!plan.predicted || plan.predicted->step_time_ns <= 0) return std::nullopt;
  int64_t baseline_ns = 0;
  if (plan.trace) {
    baseline_ns = plan.trace->replayed_step_time_ns;
  } else {
    const bool unplanned = before.front().plan_text.empty();
    const auto none = plan.predicted->baselines.find("none");
    if (unplanned && none != plan.predicted->baselines.end()) {
      baseline_ns = none->second;
    }
  }
  if (baseline_ns <= 0) return std::nullopt;
  return static_cast<double>(baseline_ns) /
         static_cast<double>(plan.predicted->step_time_ns);
}

class VerifyCommand : public Command {
 public:
  std::string name() const override { return "verify"; }
  std::string summary() const override {
    return "Say whether steps got faster, and how sure that is";
  }

  void add_flags(Flags& flags) override {
    flags.add_option("plan", plan_path_, "the plan that was to be in effect")
        .type_name("PLAN");
    flags
        .add_option("--before", before_,
                    "runs without the change: traces of any kind, step times")
        .required()
        .type_name("FILE");
    flags.add_option("--after", after_, "runs with it")
        .required()
        .type_name("FILE");
    flags
        .add_option("--confidence", confidence_, "of the verdict (default 99%)")
        .type_name("SHARE");
    flags.add_flag("--alternating", options_.alternating,
                   "runs were taken in turn: before, after, before, ...");
    flags
        .add_option("--fail-above", fail_above_,
                    "exit 1 only if slower by more (default 0)")
        .type_name("SHARE");
    flags.add_flag("--require-faster", require_faster_,
                   "exit 1 unless the verdict is faster");
    flags.add_format(format_);
    flags.footer(
        "A file is a run. Step times: a line a step, \"12.3 ms\" (seconds\n"
        "without a unit), with a reference of the machine's pace behind it or\n"
        "none; or JSON, {\"step_time_ns\": [12300000, ...]}.\n"
        "Exit 1: slower, not comparable, or the plan was not in effect.");
  }

  Result<int> run() override {
    const Result<double> confidence = parse_share("--confidence", confidence_);
    if (!confidence) return pass(confidence.error());
    const Result<double> limit = parse_share("--fail-above", fail_above_);
    if (!limit) return pass(limit.error());
    // Beyond these a quantile is no verdict's: half is no confidence, and no
    // run is long enough for the other.
    constexpr double kLeastSure = 0.5, kMostSure = 0.999999;
    if (*confidence < kLeastSure || *confidence > kMostSure) {
      return fail(ErrorKind::kInvalid,
                  "--confidence {}: expected 50% to 99.9999%", confidence_);
    }
    options_.confidence = *confidence;
    std::optional<Plan> plan;
    if (!plan_path_.empty()) {
      Result<Plan> loaded = load_plan(plan_path_);
      if (!loaded) return pass(loaded.error());
      plan = *std::move(loaded);
    }
    const Result<VerifiedChange> result = verify(plan ? &*plan : nullptr);
    if (!result) return pass(result.error());
    print_verification(*result, format_);
    return exit_code_of(*result, *limit);
  }

 private:
  /// Errors: kInvalid where runs cannot have been taken in turn.
  Status check_turns() const {
    const size_t most = std::max(before_.size(), after_.size());
    const size_t least = std::min(before_.size(), after_.size());
    if (!options_.alternating || most - least <= 1) return {};
    return fail(ErrorKind::kInvalid,
                "--alternating: {} runs before and {} after were not taken in "
                "turn; leave it out, or give a run of each side a turn",
                before_.size(), after_.size());
  }

  Result<VerifiedChange> verify(const Plan* plan) const {
    if (const Status turns = check_turns(); !turns) return pass(turns.error());
    const Result<std::vector<VerifiedRun>> before = read_runs(before_, plan);
    if (!before) return pass(before.error());
    const Result<std::vector<VerifiedRun>> after = read_runs(after_, plan);
    if (!after) return pass(after.error());
    VerifiedChange result;
    result.confidence = options_.confidence;
    result.comparison =
        compare_runs(steps_of(*before), steps_of(*after), options_);
    remark_on_repeats("--before", before_, result.comparison);
    remark_on_repeats("--after", after_, result.comparison);
    if (plan == nullptr) return result;
    Result<PlanEffect> effect = plan_effect(*plan, plan_path_, *after);
    if (!effect) return pass(effect.error());
    result.effect = *std::move(effect);
    // A prediction of buckets is of DistributedDataParallel.
    if (after->front().fsdp_groups.empty())
      result.predicted_speed_up = promised(*plan, *before);
    const auto& was = before->front().recording;
    const auto& is = after->front().recording;
    if (result.effect->other_program) {
      result.comparison.verdict = Verdict::kNotComparable;
      result.comparison.remarks.insert(result.comparison.remarks.begin(),
                                       "A run is not of the plan's program.");
    } else if (was && is) {
      result.gap = explain_prediction(*plan, *was, *is);
    }
    return result;
  }

  int exit_code_of(const VerifiedChange& result, double limit) const {
    const RunComparison& told = result.comparison;
    const bool slower = told.verdict == Verdict::kSlower && told.change > limit;
    const bool ineffective =
        result.effect && result.effect->in_effect && !*result.effect->in_effect;
    const bool unmet = require_faster_ && told.verdict != Verdict::kFaster;
    const bool no = slower || ineffective || unmet ||
                    told.verdict == Verdict::kNotComparable;
    return no ? kExitAnswerIsNo : kExitOk;
  }

  std::string plan_path_, confidence_ = "99%", fail_above_ = "0";
  std::vector<std::string> before_, after_;
  ComparisonOptions options_;
  bool require_faster_ = false;
  Format format_ = Format::kTable;
};

}  // namespace

std::unique_ptr<Command> make_verify_command() {
  return std::make_unique<VerifyCommand>();
}

}  // namespace reprise
