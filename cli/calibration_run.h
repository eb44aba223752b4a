// Runs that measure what a trace cannot tell: units of other plans without
// communication, and how compute and communication slow each other down.
#pragma once

#include <cstdint>
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

/// Whether measuring runs can stand for the run that `trace` recorded: they
/// compute on the CPU. Errors: kUnsupported naming `path` and the device.
Status check_measurable(const Trace& trace, const std::string& path);

/// Runs the program under its plan on all its ranks, recorded; solo: without
/// communication. Errors: kDevice when the ranks cannot be started or fail.
Result<Trace> run_recorded(const LoweredProgram& program, bool solo,
                           const CalibrationSteps& steps);

/// The program in an order that overlaps compute and communication, which its
/// plan may never do; units then also find caches as other plans leave them.
Result<LoweredProgram> overlapped_program(const LoweredProgram& program);

/// Measures the link of `program` as `trace` recorded it: what buckets larger
/// than its collectives cost, and how compute and communication slow each other
/// down, from a run with buckets after the compute and one with them beside it.
/// On a link with burst credit, which says more about small transfers than
/// their size does, and where the program has buckets: slow-downs only, from a
/// run of `overlapped`. `solo` is measured from a solo run of `overlapped`.
Result<std::vector<Measurement>> measure_link(
    const Trace& trace, const LoweredProgram& program,
    const LoweredProgram& overlapped, const std::vector<Measurement>& solo,
    const CalibrationSteps& apart, const CalibrationSteps& beside);

}  // namespace reprise
