// Runs that measure what a trace cannot tell: units of other plans without
// communication, and how compute and communication slow each other down. Which
// runs there are, under which plan and order, is said here; how a program is
// run, and how clocks are aligned, the caller says.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "data/program/lowered_program.h"
#include "data/result.h"
#include "data/trace/trace.h"

namespace reprise {

struct CalibrationSteps {
  int64_t steps = 8;
  int64_t warmup = 2;
};

/// What measuring takes of the floors above and beside.
struct MeasuringRuns {
  /// Runs the program under its plan on all its ranks, recorded; solo: without
  /// communication.
  std::function<Result<Trace>(const LoweredProgram& program, bool solo,
                              const CalibrationSteps& steps)>
      run;
  /// Brings the clocks of all ranks onto one.
  std::function<void(Trace& trace)> align_clocks;
};

/// Whether measuring runs can stand for the run that `trace` recorded: they
/// compute on the CPU. Errors: kUnsupported naming `path` and the device.
Status check_measurable(const Trace& trace, const std::string& path);

/// The program in an order that overlaps compute and communication, which its
/// plan may never do; units then also find caches as other plans leave them.
Result<LoweredProgram> overlapped_program(const LoweredProgram& program);

/// Steps of the runs with buckets after the compute, and with them beside it.
struct LinkSteps {
  CalibrationSteps apart, beside;
};

/// Measures the link of `program` as `trace` recorded it: what buckets larger
/// than its collectives cost, and how compute and communication slow each other
/// down, from a run with buckets after the compute and one with them beside it.
/// On a link with burst credit, which says more about small transfers than
/// their size does, and where the program has buckets: slow-downs only, from a
/// run of `overlapped`. `solo` is measured from a solo run of `overlapped`.
Result<std::vector<Measurement>> measure_link(
    const Trace& trace, const LoweredProgram& program,
    const LoweredProgram& overlapped, const std::vector<Measurement>& solo,
    const LinkSteps& steps, const MeasuringRuns& runs);

struct Calibration {
  std::vector<Measurement> measurements;
  /// Of the solo run: the machine that they hold for.
  std::map<std::string, std::string> environment;
};

/// Measures the units of `program` under its plan from a solo run. With the
/// trace that `recorded` it (else null) on several ranks, its link too; the
/// solo run then has the order of overlapped_program. Errors: those of `runs`,
/// of lowering, and as fit_costs.
Result<Calibration> calibrate(const LoweredProgram& program,
                              const Trace* recorded,
                              const CalibrationSteps& steps,
                              const MeasuringRuns& runs);

}  // namespace reprise
