// Fits a cost model from one recorded run.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "costmodel/calibration.h"
#include "costmodel/cost_model.h"
#include "data/result.h"
#include "data/schedule/schedule.h"
#include "data/trace/trace.h"

namespace reprise {

/// Fits prices from the steps of `trace` whose time is nearest to the median.
///   Units: mean over those steps of the time alone, by structural key.
///   Keys that did not run: from Trace::measurements and `measurements`, of
///   two of one key the last, as in CostDatabase, scaled by how the trace's own
///   uncontended units compare with theirs; else a roofline over the measured
///   units.
///   Collectives: latency, bandwidth, burst and points from transfers.
///   Contention: from what ran both beside the other stream and without it in
///   this trace or in solo measurements; else from measurements of context
///   kBesideContext; else default_contention.
///   Gaps: dispatch as a median, and what exceeds it is unexplained; wake-ups
///   as means.
/// Requires: `recorded` is the schedule that the trace ran; clocks aligned
/// (RankInfo holds offsets good enough to order arrivals).
/// Errors: kInvalid when the trace does not fit the schedule or has no step.
Result<CostModel> fit_costs(const Trace& trace, const Schedule& recorded,
                            std::span<const Measurement> measurements = {});

/// A sentence where more ranks of a host compute than it has cores, else "".
/// Measured with 4 ranks on 2 cores: what changed plans take was predicted 0 to
/// 55 % short (12 JAX steps), as turns for a core are no part of the model.
std::string crowded_host(const Trace& trace);

}  // namespace reprise
