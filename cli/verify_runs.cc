#include "cli/verify_runs.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "cli/open_trace.h"
#include "data/file.h"
#include "data/hlo/hlo.h"
#include "data/plan/plan_difference.h"
#include "data/trace/step_list.h"

namespace reprise {
namespace {

/// The list that the file holds; nothing of a file of another kind.
Result<std::optional<StepList>> list_in(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return std::optional<StepList>();
  }
  const Result<MappedFile> file = MappedFile::open(path);
  if (!file) return pass(file.error());
  constexpr size_t kHead = 4096;
  if (!may_be_step_list(file->bytes().substr(0, kHead))) {
    return std::optional<StepList>();
  }
  Result<StepList> list = parse_step_list(file->bytes(), path);
  if (!list) return pass(list.error());
  return std::optional<StepList>(*std::move(list));
}

std::string other_gradients(const VerifiedRun& run) {
  return fmt::format("{}: its gradients are not the plan's", run.run.name);
}

/// What a run of FSDP2 shows.
void take_groups(const Plan& plan, const VerifiedRun& run, PlanEffect& effect) {
  const FsdpEffect seen = fsdp_effect(plan, run.fsdp_groups);
  effect.other_program = !seen.same_gradients;
  effect.in_effect = seen.in_effect;
  effect.told = !seen.same_gradients ? other_gradients(run)
                : seen.in_effect.value_or(false)
                    ? seen.told
                    : fmt::format("{}: {}", run.run.name, seen.told);
}

Result<PlanEffect> bucket_plan_effect(const Plan& plan, const std::string& path,
                                      const std::vector<VerifiedRun>& after) {
  PlanEffect effect;
  for (const VerifiedRun& each : after) {
    if (!each.fsdp_groups.empty()) {
      take_groups(plan, each, effect);
      if (effect.other_program || !effect.in_effect.value_or(true))
        return effect;
      continue;
    }
    if (!each.recording) continue;
    const Result<BucketEffect> seen =
        bucket_effect(plan, path, *each.recording);
    if (!seen) return pass(seen.error());
    if (!seen->same_gradients) {
      effect.other_program = true;
      effect.in_effect = false;
      effect.told = other_gradients(each);
      return effect;
    }
    if (!seen->in_effect && !seen->as_single_cap) {
      effect.in_effect = false;
      effect.told = fmt::format("{}: {}", each.run.name, seen->difference);
      return effect;
    }
    effect.in_effect = true;
    effect.told = fmt::format(
        "{} buckets, {}", seen->seen_bytes.size(),
        seen->in_effect ? "as planned" : "those of the plan's single cap");
  }
  if (!effect.in_effect && effect.told.empty()) {
    effect.told = after.front().traced
                      ? after.front().no_recording
                      : "step times alone do not show what ran";
  }
  return effect;
}

}  // namespace

Result<VerifiedRun> read_run(const std::string& path, const Plan* plan) {
  Result<std::optional<StepList>> list = list_in(path);
  if (!list) return pass(list.error());
  VerifiedRun verified;
  if (*list) {
    Result<StepRun> run = run_of_list(**std::move(list), path);
    if (!run) return pass(run.error());
    verified.run = *std::move(run);
    return verified;
  }
  Result<Trace> trace = read_trace_shown(path);
  if (!trace) return pass(trace.error());
  Result<StepRun> run = run_of_trace(*trace, path);
  if (!run) return pass(run.error());
  verified.traced = true;
  verified.run = *std::move(run);
  verified.plan_text = trace->plan_text;
  if (!trace->program_text.empty()) {
    const Result<Module> module = parse_hlo(trace->program_text, path);
    if (!module) return pass(module.error());
    verified.run.program = fingerprint(*module);
  }
  if (plan == nullptr || !plan->trace) return verified;
  verified.fsdp_groups = fsdp_groups(*trace);
  if (!verified.fsdp_groups.empty()) return verified;
  Result<DdpRecording> recording = ddp_recording(*trace);
  if (recording) {
    verified.recording = *std::move(recording);
  } else {
    verified.no_recording = recording.error().message;
  }
  return verified;
}

Result<PlanEffect> plan_effect(const Plan& plan, const std::string& path,
                               const std::vector<VerifiedRun>& after) {
  if (plan.trace) return bucket_plan_effect(plan, path, after);
  PlanEffect effect;
  effect.told = "no run after says what plan it ran";
  for (const VerifiedRun& each : after) {
    if (!each.traced || each.run.program.empty()) continue;
    Plan ran;
    if (!each.plan_text.empty()) {
      const Result<Plan> read = parse_plan(each.plan_text, each.run.name);
      if (!read) return pass(read.error());
      ran = *read;
    } else {
      ran.program_fingerprint = each.run.program;
      ran.ranks = each.run.ranks > 0 ? each.run.ranks : plan.ranks;
    }
    const std::string difference = plan_difference(plan, ran);
    effect.in_effect = difference.empty();
    effect.other_program = plan.program_fingerprint != ran.program_fingerprint;
    effect.told = difference.empty()
                      ? "fusion, buckets and order as planned"
                      : fmt::format("{}: {}", each.run.name, difference);
    if (!difference.empty()) return effect;
  }
  return effect;
}

}  // namespace reprise
