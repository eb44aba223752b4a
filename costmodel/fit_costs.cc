#include "costmodel/fit_costs.h"

#include <algorithm>
#include <map>

#include "costmodel/fit_collectives.h"
#include "costmodel/fit_gaps.h"
#include "costmodel/fit_units.h"
#include "costmodel/recorded_steps.h"

namespace reprise {
namespace {

using TransfersByKey = std::map<std::string, std::vector<TransferSample>>;

TransfersByKey collect_transfers(const std::vector<RecordedStep>& steps,
                                 const Schedule& recorded) {
  TransfersByKey by_key;
  for (const RecordedStep& step : steps) {
    int64_t last_end_ns = step.ranks.front().start_ns;
    for (const RecordedTransfer& transfer : step.transfers) {
      const int64_t duration_ns = transfer.end_ns - transfer.start_ns;
      const int64_t idle_ns = transfer.start_ns - last_end_ns;
      last_end_ns = transfer.end_ns;
      if (duration_ns <= 0) continue;
      const Unit& unit = recorded.units[transfer.unit];
      const double duration = static_cast<double>(duration_ns);
      by_key[collective_key(unit.collective)].push_back(
          {.step = step.step,
           .bytes = transfer.bytes,
           .duration_ns = duration,
           .beside = static_cast<double>(transfer.beside_ns) / duration,
           .idle_ns = static_cast<double>(std::max<int64_t>(0, idle_ns))});
    }
  }
  return by_key;
}

void fit_collectives(const std::vector<RecordedStep>& steps,
                     const Schedule& recorded, CostModel& costs) {
  size_t most = 0;
  for (const auto& [key, samples] : collect_transfers(steps, recorded)) {
    const CollectiveFit fit = fit_collective(samples);
    costs.collectives[key] = fit.price;
    if (samples.size() > most) costs.contention.collective = fit.slowdown;
    most = std::max(most, samples.size());
  }
}

}  // namespace

Result<CostModel> fit_costs(const Trace& trace, const Schedule& recorded,
                            std::span<const Measurement> measurements) {
  Result<std::vector<RecordedStep>> all = recorded_steps(trace, recorded);
  if (!all) return pass(all.error());
  const std::vector<RecordedStep> steps = middle_half(*std::move(all));
  std::vector<Measurement> known(measurements.begin(), measurements.end());
  known.insert(known.end(), trace.measurements.begin(),
               trace.measurements.end());
  CostModel costs;
  fit_units(steps, recorded, known, costs);
  fit_collectives(steps, recorded, costs);
  fit_gaps(steps, recorded, costs);
  return costs;
}

Result<std::vector<Measurement>> measurements_of(const Trace& solo,
                                                 const Schedule& schedule) {
  const Result<std::vector<RecordedStep>> steps =
      recorded_steps(solo, schedule);
  if (!steps) return pass(steps.error());
  std::map<std::string, std::vector<int64_t>> durations;
  std::map<std::string, std::string> names;
  for (const RecordedStep& step : *steps) {
    for (const RecordedRank& rank : step.ranks) {
      for (const RecordedUnit& run : rank.compute) {
        const Unit& unit = schedule.units[run.unit];
        durations[unit.key].push_back(run.end_ns - run.start_ns);
        names.insert({unit.key, unit.name});
      }
    }
  }
  std::vector<Measurement> measurements;
  for (auto& [key, list] : durations) {
    std::sort(list.begin(), list.end());
    const size_t count = list.size();
    measurements.push_back(
        {.key = key,
         .unit = names.at(key),
         .context = kSoloContext,
         .median_ns = list[count / 2],
         .spread_ns = list[(3 * count) / 4] - list[count / 4],
         .samples = static_cast<int64_t>(count)});
  }
  return measurements;
}

}  // namespace reprise
