// Puts the fits together in the order in which they need each other: the link
// and its slow-downs, units with the contention found, then the gaps that units
// and transfers leave.
#include "costmodel/fit_costs.h"

#include <algorithm>
#include <map>

#include "costmodel/calibration.h"
#include "costmodel/fit_collectives.h"
#include "costmodel/fit_gaps.h"
#include "costmodel/fit_units.h"
#include "costmodel/large_transfers.h"
#include "costmodel/recorded_steps.h"

namespace reprise {
namespace {

// The link, and what compute and communication cost each other beside it: from
// the steps where they can tell, else measured, else by default.
void fit_collectives(const std::vector<RecordedStep>& steps,
                     const Schedule& recorded,
                     std::span<const Measurement> measurements,
                     CostModel& costs) {
  size_t most = 0;
  for (const auto& [key, samples] : collect_transfers(steps, recorded)) {
    const Contention known = with_measured(
        default_contention(mean_bandwidth(samples)), measurements);
    // Measured from this trace and an overlapped run together: a trace that
    // hardly overlaps would judge from a few small transfers.
    const bool is_measured = std::any_of(
        measurements.begin(), measurements.end(), [](const Measurement& each) {
          return each.context == kBesideContext &&
                 each.key == "slowdown/collective";
        });
    const CollectiveFit fit =
        fit_collective(samples, known.collective, is_measured);
    costs.collectives[key] = fit.price;
    add_measured_sizes(measurements, key, costs.collectives[key]);
    if (samples.size() <= most) continue;
    most = samples.size();
    costs.contention = known;
    if (!fit.slowdown_fitted) continue;
    costs.contention.collective = fit.slowdown;
    costs.contention.collective_is_assumed = false;
  }
  for (const auto& [key, samples] : collect_copies(steps, recorded))
    costs.collectives[key] = fit_collective(samples).price;
}

}  // namespace

Result<CostModel> fit_costs(const Trace& trace, const Schedule& recorded,
                            std::span<const Measurement> measurements) {
  Result<std::vector<RecordedStep>> all = recorded_steps(trace, recorded);
  if (!all) return pass(all.error());
  const std::vector<RecordedStep> steps = middle_steps(*std::move(all));
  std::vector<Measurement> known(measurements.begin(), measurements.end());
  known.insert(known.end(), trace.measurements.begin(),
               trace.measurements.end());
  CostModel costs;
  fit_collectives(steps, recorded, known, costs);
  fit_units(steps, recorded, known, costs);
  fit_gaps(steps, recorded, costs);
  return costs;
}

}  // namespace reprise
