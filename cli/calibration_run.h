// Runs that measure what a trace cannot tell: units of other plans without
// communication, and how compute and communication slow each other down.
#pragma once

#include <cstdint>
#include <vector>

#include "cli/program.h"
#include "data/result.h"
#include "data/trace/trace.h"

namespace reprise {

struct CalibrationSteps {
  int64_t steps = 8;
  int64_t warmup = 2;
};

/// Runs the program under its plan on all its ranks, recorded; solo: without
/// communication. Errors: kDevice when the ranks cannot be started or fail.
Result<Trace> run_recorded(const LoweredProgram& program, bool solo,
                           const CalibrationSteps& steps);

/// Runs the recorded units once more in an order that overlaps them with
/// communication, which the recorded plan may never do. `program` is what
/// `trace` ran, `solo` its units measured without communication.
Result<std::vector<Measurement>> measure_contention(
    const Trace& trace, const LoweredProgram& program,
    const std::vector<Measurement>& solo, const CalibrationSteps& steps);

}  // namespace reprise
