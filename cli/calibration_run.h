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

/// The program in an order that overlaps compute and communication, which its
/// plan may never do; units then also find caches as other plans leave them.
Result<LoweredProgram> overlapped_program(const LoweredProgram& program);

/// Measures the slow-downs from a run of `overlapped`, against what `trace`
/// recorded of `program` and `solo`, a solo run of `overlapped`.
Result<std::vector<Measurement>> measure_contention(
    const Trace& trace, const LoweredProgram& program,
    const LoweredProgram& overlapped, const std::vector<Measurement>& solo,
    const CalibrationSteps& steps);

/// Measures what buckets larger than the collectives of `program` cost, which
/// `trace` recorded, from a run of its own. Nothing when `program` has buckets.
Result<std::vector<Measurement>> measure_large_transfers(
    const Trace& trace, const LoweredProgram& program,
    const CalibrationSteps& steps);

}  // namespace reprise
