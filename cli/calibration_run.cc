#include "cli/calibration_run.h"

#include <algorithm>

#include "cli/launcher.h"
#include "cli/process.h"
#include "costmodel/calibration.h"
#include "costmodel/large_transfers.h"
#include "replay/clock_alignment.h"

namespace reprise {
namespace {

/// Slow-downs are stated in millionths. Two threads that share a core slow each
/// other down twofold at most; what is fitted above that is noise.
constexpr int64_t kMillionths = 1'000'000;

}  // namespace

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
  LoweredProgram overlapped = program;
  overlapped.plan.order = overlapped_order(program.schedule);
  Result<Schedule> lowered = lower_under(program, overlapped.plan);
  if (!lowered) return pass(lowered.error(), "overlapped order");
  overlapped.schedule = *std::move(lowered);
  return overlapped;
}

Result<std::vector<Measurement>> measure_contention(
    const Trace& trace, const LoweredProgram& program,
    const LoweredProgram& overlapped, const std::vector<Measurement>& solo,
    const CalibrationSteps& steps) {
  Result<Trace> beside = run_recorded(overlapped, false, steps);
  if (!beside) return pass(beside.error());
  Trace aligned = trace;
  align_clocks(aligned);
  align_clocks(*beside);
  auto measured = contention_measurements({aligned, program.schedule},
                                          {*beside, overlapped.schedule}, solo);
  if (!measured) return measured;
  for (Measurement& each : *measured) {
    each.median_ns = std::clamp(each.median_ns, kMillionths, 2 * kMillionths);
  }
  return measured;
}

Result<std::vector<Measurement>> measure_large_transfers(
    const Trace& trace, const LoweredProgram& program,
    const CalibrationSteps& steps) {
  LoweredProgram probed = program;
  probed.plan.buckets = probing_buckets(program.schedule);
  if (probed.plan.buckets.empty()) return std::vector<Measurement>();
  probed.plan.order.clear();
  Result<Schedule> bucketed = lower_under(program, probed.plan);
  if (!bucketed) return pass(bucketed.error(), "buckets of growing sizes");
  probed.plan.order = apart_order(*bucketed);
  Result<Schedule> ordered = lower_under(program, probed.plan);
  if (!ordered) return pass(ordered.error(), "buckets of growing sizes");
  probed.schedule = *std::move(ordered);
  Result<Trace> run = run_recorded(probed, false, steps);
  if (!run) return pass(run.error());
  Trace aligned = trace;
  align_clocks(aligned);
  align_clocks(*run);
  return size_measurements({aligned, program.schedule},
                           {*run, probed.schedule});
}

}  // namespace reprise
