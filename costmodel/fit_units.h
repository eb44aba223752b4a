// The compute half of fit_costs: contention, unit prices, roofline.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "costmodel/cost_model.h"
#include "costmodel/recorded_steps.h"

namespace reprise {

/// Slow-downs of compute beside transfers, where the steps and solo
/// measurements can tell.
struct ComputeSlowdowns {
  std::optional<double> library, kernel;
};
ComputeSlowdowns fit_compute_slowdowns(
    const std::vector<RecordedStep>& steps, const Schedule& recorded,
    std::span<const Measurement> measurements, const Contention& expected);

/// Fills `units` and the rooflines of `costs`, and its contention of compute
/// where the steps can tell it; what stands there is kept where they cannot.
void fit_units(const std::vector<RecordedStep>& steps, const Schedule& recorded,
               std::span<const Measurement> measurements, CostModel& costs);

}  // namespace reprise
