// Puts the fits together in the order in which they need each other: the link
// and its slow-downs, units with the contention found, then the gaps that units
// and transfers leave.
#include "costmodel/fit_costs.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "costmodel/calibration.h"
#include "costmodel/cost_database.h"
#include "costmodel/fit_collectives.h"
#include "costmodel/fit_gaps.h"
#include "costmodel/fit_units.h"
#include "costmodel/large_transfers.h"
#include "costmodel/recorded_steps.h"
#include "data/io/decimal.h"

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
  // As a database keeps them, so that a later command has the same prices.
  CostDatabase merged;
  merged.merge("", trace.measurements);
  merged.merge("", measurements);
  const std::vector<Measurement> known = merged.measurements("");
  CostModel costs;
  fit_collectives(steps, recorded, known, costs);
  fit_units(steps, recorded, known, costs);
  fit_gaps(steps, recorded, costs);
  return costs;
}

std::string crowded_host(const Trace& trace) {
  const auto device = trace.environment.find("device");
  const auto cores = trace.environment.find("cores");
  if (device == trace.environment.end() || device->second != "cpu" ||
      cores == trace.environment.end())
    return "";
  std::map<std::string, size_t> ranks;
  for (const RankInfo& info : trace.ranks) ++ranks[info.host];
  for (const auto& [host, count] : ranks) {
    if (count <=
        static_cast<size_t>(parse_integer(cores->second).value_or(INT64_MAX)))
      continue;
    return fmt::format(
        "{} ranks took turns on the {} cores of {}, which no price tells apart "
        "from work and waits: expect other plans to take longer than predicted",
        count, cores->second, host);
  }
  return "";
}

}  // namespace reprise
