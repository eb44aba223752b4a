#include "cli/calibration_run.h"

#include "cli/launcher.h"
#include "cli/process.h"
#include "replay/clocks/clock_alignment.h"

namespace reprise {
namespace {

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

}  // namespace

MeasuringRuns trainer_runs() {
  return {.run = run_recorded,
          .align_clocks = [](Trace& trace) { align_clocks(trace); }};
}

}  // namespace reprise
