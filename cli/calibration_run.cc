#include "cli/calibration_run.h"

#include <csignal>

#include "cli/launcher.h"
#include "cli/process.h"
#include "replay/clocks/clock_alignment.h"

namespace reprise {
namespace {

Result<Trace> run_recorded(const LoweredProgram& program, bool solo,
                           const CalibrationSteps& steps, int* received) {
  Result<TemporaryDirectory> directory = TemporaryDirectory::create();
  if (!directory) return pass(directory.error());
  const Result<std::string> hlo = materialize(program, directory->path());
  if (!hlo) return pass(hlo.error());
  TrainRequest request;
  request.program = *hlo;
  request.scratch = directory->path();
  request.plan = directory->path() + "/program.plan.json";
  request.ranks = program.plan.ranks;
  if (program.manifest.folders.none()) {
    request.data.made_up = true;
  } else if (program.manifest.dataset) {
    const Result<DataFile> file = find_data_file(program.manifest.dataset->file,
                                                 program.manifest.folders);
    if (!file) return pass(file.error());
    request.data.folder = file->folder;
  }
  request.steps = steps.steps;
  request.warmup = steps.warmup;
  request.solo = solo;
  request.record = true;
  Result<TrainOutcome> outcome = run_trainer(request);
  if (!outcome) return pass(outcome.error());
  *received = outcome->received;
  if (outcome->exit_status != 0) {
    return fail(ErrorKind::kDevice,
                "the calibration run ended with exit status {}; see above",
                outcome->exit_status);
  }
  return std::move(outcome->trace);
}

}  // namespace

MeasuringRuns trainer_runs() {
  return {.run =
              [](const LoweredProgram& program, bool solo,
                 const CalibrationSteps& steps) {
                int received = 0;
                Result<Trace> trace =
                    run_recorded(program, solo, steps, &received);
                // The ranks got it; whoever started the run is to know.
                if (received != 0) ::raise(received);
                return trace;
              },
          .align_clocks = [](Trace& trace) { align_clocks(trace); }};
}

}  // namespace reprise
