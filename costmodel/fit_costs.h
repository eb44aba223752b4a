// Fits a cost model from one recorded run, and reads calibration runs.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "costmodel/cost_model.h"
#include "data/result.h"
#include "data/schedule/schedule.h"
#include "data/trace/trace.h"

namespace reprise {

/// Context of measurements from a run without communication, all ranks
/// computing (`reprise-train --solo`).
inline constexpr const char* kSoloContext = "solo";

/// Fits prices from the steps of `trace` whose time lies in the middle half.
///   Units: mean over those steps of the time alone, by structural key.
///   Keys that did not run: from `measurements` and Trace::measurements, scaled
///   by how the trace's own uncontended units compare with theirs; else a
///   roofline over the measured units.
///   Collectives: latency, bandwidth, burst and points from transfers.
///   Contention: from units that ran both beside transfers and without,
///   measurements included.
///   Gaps: dispatch and wake-ups as medians; what exceeds them is unexplained.
/// Requires: `recorded` is the schedule that the trace ran; clocks aligned
/// (RankInfo holds offsets good enough to order arrivals).
/// Errors: kInvalid when the trace does not fit the schedule or has no step.
Result<CostModel> fit_costs(const Trace& trace, const Schedule& recorded,
                            std::span<const Measurement> measurements = {});

/// Turns a solo run of `schedule` into measurements by structural key: median
/// over steps, ranks and units, compute units only, ascending by key.
/// Errors: as fit_costs.
Result<std::vector<Measurement>> measurements_of(const Trace& solo,
                                                 const Schedule& schedule);

}  // namespace reprise
