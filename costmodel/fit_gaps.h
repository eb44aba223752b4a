// The gaps of recorded steps: dispatch, wake-ups, feed, the step's end, and
// what none of them explains.
#pragma once

#include <vector>

#include "costmodel/cost_model.h"
#include "costmodel/recorded_steps.h"

namespace reprise {

/// Fills jitter_sqrt_ns, dispatch_ns, feed_ns, both wakes,
/// communication_gap_ns, step_overhead_ns, unexplained_ns; and meeting_ns where
/// steps enough were recorded of several ranks.
void fit_gaps(const std::vector<RecordedStep>& steps, const Schedule& recorded,
              CostModel& costs);

}  // namespace reprise
