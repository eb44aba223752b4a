#include "cli/calibration_run.h"

#include <algorithm>

#include "cli/launcher.h"
#include "cli/process.h"
#include "costmodel/calibration.h"
#include "costmodel/large_transfers.h"
#include "replay/clocks/clock_alignment.h"

namespace reprise {
namespace {

/// Slow-downs are stated in millionths. Two threads that share a core slow each
/// other down twofold at most; what is fitted above that is noise.
constexpr int64_t kMillionths = 1'000'000;

Result<std::vector<Measurement>> limited(
    Result<std::vector<Measurement>> slowdowns) {
  if (!slowdowns) return slowdowns;
  for (Measurement& each : *slowdowns) {
    each.median_ns = std::clamp(each.median_ns, kMillionths, 2 * kMillionths);
  }
  return slowdowns;
}

/// The program under `plan` in an order made from that plan's units.
Result<LoweredProgram> under_order(
    const LoweredProgram& program, const Plan& plan,
    std::vector<std::string> (*order_of)(const Schedule&)) {
  LoweredProgram ordered = program;
  ordered.plan = plan;
  ordered.plan.order.clear();
  for (const bool last : {false, true}) {
    Result<Schedule> lowered = lower_under(program, ordered.plan);
    if (!lowered) return pass(lowered.error(), "plan of a measuring run");
    if (!last) ordered.plan.order = order_of(*lowered);
    ordered.schedule = *std::move(lowered);
  }
  return ordered;
}

Result<Trace> run_aligned(const LoweredProgram& program,
                          const CalibrationSteps& steps) {
  Result<Trace> run = run_recorded(program, false, steps);
  if (run) align_clocks(*run);
  return run;
}

}  // namespace

Status check_measurable(const Trace& trace, const std::string& path) {
  const auto found = trace.environment.find("device");
  if (found == trace.environment.end() || found->second == "cpu") return {};
  return fail(ErrorKind::kUnsupported,
              "{}: recorded on {}, and units are measured on the CPU only",
              path, found->second);
}

Result<Trace> run_recorded(const LoweredProgram& program, bool solo,
                           const CalibrationSteps& steps) {
  Result<TemporaryDirectory> directory = TemporaryDirectory::create();
  if (!directory) return pass(directory.error());
  const Result<std::string> hlo = materialize(program, directory->path());
  if (!hlo) return pass(hlo.error());
  TrainRequest request;
  request.program = *hlo;
  request.plan = directory->path() + "/program.plan.json";
  request.ranks = program.plan.ranks;
  request.steps = steps.steps;
  request.warmup = steps.warmup;
  request.solo = solo;
  request.record = true;
  Result<TrainOutcome> outcome = run_trainer(request);
  if (!outcome) return pass(outcome.error());
  if (outcome->exit_status != 0) {
    return fail(ErrorKind::kDevice,
                "the calibration run ended with exit status {}; see above",
                outcome->exit_status);
  }
  return std::move(outcome->trace);
}

Result<LoweredProgram> overlapped_program(const LoweredProgram& program) {
  return under_order(program, program.plan, overlapped_order);
}

Result<std::vector<Measurement>> measure_link(
    const Trace& trace, const LoweredProgram& program,
    const LoweredProgram& overlapped, const std::vector<Measurement>& solo,
    const CalibrationSteps& apart, const CalibrationSteps& beside) {
  Trace aligned = trace;
  align_clocks(aligned);
  const RecordedRun recorded = {aligned, program.schedule};
  const Result<bool> credited = has_burst_credit(recorded);
  if (!credited) return pass(credited.error());
  Plan probe = program.plan;
  probe.buckets = probing_buckets(program.schedule);
  if (*credited || probe.buckets.empty()) {
    const Result<Trace> run = run_aligned(overlapped, beside);
    if (!run) return pass(run.error());
    return limited(
        contention_measurements(recorded, {*run, overlapped.schedule}, solo));
  }
  const auto apart_program = under_order(program, probe, apart_order);
  if (!apart_program) return pass(apart_program.error());
  const auto beside_program = under_order(program, probe, overlapped_order);
  if (!beside_program) return pass(beside_program.error());
  const Result<Trace> apart_run = run_aligned(*apart_program, apart);
  if (!apart_run) return pass(apart_run.error());
  const Result<Trace> beside_run = run_aligned(*beside_program, beside);
  if (!beside_run) return pass(beside_run.error());
  const RecordedRun alone = {*apart_run, apart_program->schedule};
  Result<std::vector<Measurement>> measured = limited(contention_measurements(
      alone, {*beside_run, beside_program->schedule}, solo, false));
  if (!measured) return measured;
  const auto sizes = size_measurements(recorded, alone);
  if (!sizes) return pass(sizes.error());
  measured->insert(measured->end(), sizes->begin(), sizes->end());
  return measured;
}

}  // namespace reprise
