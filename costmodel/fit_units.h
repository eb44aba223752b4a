// The compute half of fit_costs: contention, unit prices, roofline.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "costmodel/cost_model.h"
#include "costmodel/recorded_steps.h"

namespace reprise {

/// Fills contention of compute, `units`, and the rooflines of `costs`.
void fit_units(const std::vector<RecordedStep>& steps, const Schedule& recorded,
               std::span<const Measurement> measurements, CostModel& costs);

}  // namespace reprise
