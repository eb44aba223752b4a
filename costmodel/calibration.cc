// Medians by structural key from a solo run, and slow-downs from a run that
// overlaps against one that does not.
#include "costmodel/calibration.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "costmodel/fit_collectives.h"
#include "costmodel/fit_contention.h"
#include "costmodel/fit_units.h"
#include "costmodel/recorded_steps.h"
#include "data/schedule/dependencies.h"

namespace reprise {
namespace {

Measurement factor(const std::string& key, double value, size_t samples) {
  return {.key = "slowdown/" + key,
          .unit = "slow-down of " + key,
          .context = kBesideContext,
          .median_ns = std::llround(value * kMillion),
          .samples = static_cast<int64_t>(samples)};
}

/// Slow-down of transfers of the sizes that both runs have, by totals: the
/// transfers of `base` that stood beside nothing tell the time alone.
std::optional<double> transfer_slowdown(
    const std::vector<TransferSample>& base,
    const std::vector<TransferSample>& overlapped, double expected) {
  struct Sum {
    double total_ns = 0, count = 0;
  };
  constexpr double kApart = 0.05;  // Share beside compute that still is alone.
  std::map<double, Sum> alone;     // By bytes.
  for (const TransferSample& sample : base) {
    if (sample.beside > kApart) continue;
    alone[sample.bytes].total_ns += sample.duration_ns;
    alone[sample.bytes].count += 1;
  }
  std::map<std::string, ContentionKey> keys;
  for (const TransferSample& sample : overlapped) {
    const auto found = alone.find(sample.bytes);
    if (found == alone.end()) continue;
    ContentionKey& key = keys[std::to_string(sample.bytes)];
    key.alone_ns = found->second.total_ns / found->second.count;
    key.samples.push_back({.duration_ns = sample.duration_ns,
                           .beside_ns = sample.beside * sample.duration_ns});
  }
  return fit_slowdown(keys, expected);
}

/// What ranks compute in a step, by means over steps.
struct ComputeOfRanks {
  double beside_ns = 0;  ///< Of the mean rank, beside transfers.
  double behind_ns = 0;  ///< What the rank that took longest exceeds it by.

  explicit ComputeOfRanks(const std::vector<RecordedStep>& steps) {
    for (const RecordedStep& step : steps) {
      double most_ns = 0, sum_ns = 0;
      const auto ranks = static_cast<double>(step.ranks.size());
      for (const RecordedRank& rank : step.ranks) {
        double total_ns = 0;
        for (const RecordedUnit& run : rank.compute) {
          total_ns += static_cast<double>(run.end_ns - run.start_ns);
          beside_ns += static_cast<double>(run.beside_ns) / ranks;
        }
        most_ns = std::max(most_ns, total_ns);
        sum_ns += total_ns;
      }
      behind_ns += most_ns - sum_ns / ranks;
    }
    const auto count = static_cast<double>(std::max<size_t>(1, steps.size()));
    beside_ns /= count;
    behind_ns /= count;
  }
};

/// Transfers slow ranks unequally, a different one in each step: threads that
/// serve them gather on one rank's core. What ranks differ by without transfers
/// is in both runs.
std::optional<double> slowest_rank(
    const std::vector<RecordedStep>& base,
    const std::vector<RecordedStep>& overlapped) {
  constexpr double kEnoughMore = 1.5;  // Time beside transfers; less is noise.
  const ComputeOfRanks before(base), after(overlapped);
  if (after.beside_ns <= kEnoughMore * before.beside_ns) return std::nullopt;
  return 1 + std::max(0.0, after.behind_ns - before.behind_ns) /
                 (after.beside_ns - before.beside_ns);
}

}  // namespace

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

std::vector<std::string> overlapped_order(const Schedule& schedule) {
  const std::vector<uint32_t> before = collectives_before(schedule);
  std::vector<std::string> order;
  for (const bool late : {false, true}) {
    for (size_t unit = 0; unit < schedule.units.size(); ++unit) {
      const Unit& candidate = schedule.units[unit];
      // Copies are placed by lowering.
      if ((before[unit] > 0) == late && candidate.kind != UnitKind::kCopy) {
        order.push_back(candidate.name);
      }
    }
  }
  return order;
}

Result<std::vector<Measurement>> contention_measurements(
    const RecordedRun& recorded, const RecordedRun& overlapped,
    std::span<const Measurement> solo, bool may_have_credit) {
  Result<std::vector<RecordedStep>> base =
      recorded_steps(recorded.trace, recorded.schedule);
  if (!base) return pass(base.error());
  Result<std::vector<RecordedStep>> both =
      recorded_steps(overlapped.trace, overlapped.schedule);
  if (!both) return pass(both.error());
  const std::vector<RecordedStep> base_steps = middle_steps(*std::move(base));
  const std::vector<RecordedStep> steps = middle_steps(*std::move(both));

  std::vector<Measurement> result;
  double bandwidth = 0;
  TransfersByKey transfers = collect_transfers(base_steps, recorded.schedule);
  for (auto& [key, samples] : collect_transfers(steps, overlapped.schedule)) {
    std::vector<TransferSample>& all = transfers[key];
    const std::vector<TransferSample> alone = all;
    const int32_t shift = all.empty() ? 0 : all.back().step + 1;
    for (TransferSample sample : samples) {
      sample.step += shift;
      all.push_back(sample);
    }
    const CollectiveFit fit = fit_collective(all);
    bandwidth = std::max(bandwidth, fit.price.bandwidth_bytes_per_s);
    if (!fit.slowdown_fitted || !result.empty()) continue;
    double slowdown = fit.slowdown;
    // Only burst credit makes transfers of one size differ when alone.
    if (!may_have_credit || fit.price.burst_bytes <= 0) {
      const double expected =
          default_contention(fit.price.bandwidth_bytes_per_s).collective;
      slowdown = transfer_slowdown(alone, samples, expected).value_or(slowdown);
    }
    result.push_back(factor("collective", slowdown, all.size()));
  }
  const ComputeSlowdowns found = fit_compute_slowdowns(
      steps, overlapped.schedule, solo, default_contention(bandwidth));
  if (found.library) {
    result.push_back(factor("library", *found.library, steps.size()));
  }
  if (found.kernel) {
    result.push_back(factor("kernel", *found.kernel, steps.size()));
  }
  if (const auto slowest = slowest_rank(base_steps, steps))
    result.push_back(factor("slowest", *slowest, steps.size()));
  return result;
}

Contention default_contention(double bandwidth_bytes_per_s) {
  constexpr double kCpu_s_per_byte = 1e-9;
  constexpr double kMostShare = 0.5;  // Two threads share a core.
  const double share =
      std::min(kMostShare, bandwidth_bytes_per_s * kCpu_s_per_byte);
  const double slowdown = 1 / (1 - share);
  return {.library = slowdown,
          .kernel = slowdown,
          .collective = 1 + share * share,
          .compute_is_assumed = true,
          .collective_is_assumed = true};
}

Contention with_measured(Contention contention,
                         std::span<const Measurement> measurements) {
  for (const Measurement& measurement : measurements) {
    if (measurement.context != kBesideContext) continue;
    const double value =
        std::max(1.0, static_cast<double>(measurement.median_ns) / kMillion);
    if (measurement.key == "slowdown/library") {
      contention.library = value;
      contention.compute_is_assumed = false;
    } else if (measurement.key == "slowdown/kernel") {
      contention.kernel = value;
      contention.compute_is_assumed = false;
    } else if (measurement.key == "slowdown/collective") {
      contention.collective = value;
      contention.collective_is_assumed = false;
    } else if (measurement.key == "slowdown/slowest") {
      contention.slowest = value;
    }
  }
  return contention;
}

}  // namespace reprise
