// Device work of a profiled reprise-train as the times of its units: the
// recorder saw when a unit was enqueued, CUPTI when its kernels ran.
#pragma once

#include <cstdint>
#include <vector>

#include "data/trace/trace.h"
#include "profiler/trainer_context.h"

namespace reprise {

/// Gives each recorded unit of `trainer` the time from the first start to the
/// last end of its device work in `device` (same ranks, same clocks): work
/// whose external id is the unit, launched while the unit was enqueued, or in
/// the same step. When the unit was enqueued stays as `enqueue_ns`; how many
/// kernels and copies it was, as attribute "device_operations". Units that only
/// the device saw (replays of a graph) get events of their own. Steps without
/// device work are dropped from ranks that have some, and their time is kept
/// (keep_bare_steps). What was dropped, and kernels of a step that belong to no
/// unit, are told in `warnings`.
void attribute_device_work(const std::vector<UnitLabel>& units,
                           const Trace& device, Trace& trainer);

}  // namespace reprise
