// Prices of units: the mean of all runs of one structural key, each taken to
// the time it would have had alone. Where runs beside nothing are missing, solo
// measurements stand in, scaled by how much slower this trace is than they on
// the units that both have. The roofline, max(flops / rate, bytes / bandwidth)
// plus overhead (Williams, Waterman and Patterson, CACM 52(4), 2009), is fitted
// to the units that ran, for those that never did.
#include "costmodel/fit_units.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "costmodel/calibration.h"
#include "costmodel/fit_contention.h"
#include "costmodel/pattern_search.h"

namespace reprise {
namespace {

// All runs of the units of one key.
struct KeySamples {
  const Unit* unit = nullptr;
  std::vector<ContentionSample> samples;
};
using SamplesByKey = std::map<std::string, KeySamples>;
using SoloByKey = std::map<std::string, const Measurement*>;

SamplesByKey collect(const std::vector<RecordedStep>& steps,
                     const Schedule& recorded) {
  SamplesByKey by_key;
  for (const RecordedStep& step : steps) {
    for (const RecordedRank& rank : step.ranks) {
      for (const RecordedUnit& run : rank.compute) {
        const Unit& unit = recorded.units[run.unit];
        KeySamples& key = by_key[unit.key];
        key.unit = &unit;
        key.samples.push_back(
            {.duration_ns = static_cast<double>(run.end_ns - run.start_ns),
             .beside_ns = static_cast<double>(run.beside_ns)});
      }
    }
  }
  return by_key;
}

SoloByKey solo_by_key(std::span<const Measurement> measurements) {
  SoloByKey by_key;
  for (const Measurement& measurement : measurements) {
    if (measurement.context != kSoloContext || measurement.median_ns <= 0)
      continue;
    by_key[measurement.key] = &measurement;
  }
  return by_key;
}

bool is_library(const KeySamples& key) {
  return key.unit->kind == UnitKind::kLibrary;
}

// Time of units of a kind that ran beside nothing here, and of those that the
// solo run has too.
struct SharedTime {
  double all_ns = 0, here_ns = 0, there_ns = 0;

  bool covers_most() const { return here_ns > 0.5 * all_ns; }
};

SharedTime shared_time(const SamplesByKey& by_key, const SoloByKey& solo,
                       bool library) {
  constexpr double kApart = 0.05;  // Share beside transfers that still counts.
  SharedTime shared;
  for (const auto& [key, value] : by_key) {
    if (is_library(value) != library) continue;
    const auto found = solo.find(key);
    for (const ContentionSample& sample : value.samples) {
      if (sample.beside_ns > kApart * sample.duration_ns) continue;
      shared.all_ns += sample.duration_ns;
      if (found == solo.end()) continue;
      shared.here_ns += sample.duration_ns;
      shared.there_ns += static_cast<double>(found->second->median_ns);
    }
  }
  return shared;
}

// How much longer units of a kind take in this trace than in the solo run where
// no transfer was beside them: means against medians, other processes, clocks.
// Where most of the kind were fused since, the few left tell more about what
// ran before them (one of 248 ns took 686 among others); then the other kind
// tells, of which both have most.
double solo_bias(const SamplesByKey& by_key, const SoloByKey& solo,
                 bool library) {
  constexpr double kLeastTime_ns = 1e5;
  SharedTime shared = shared_time(by_key, solo, library);
  if (!shared.covers_most()) {
    const SharedTime other = shared_time(by_key, solo, !library);
    if (other.covers_most()) shared = other;
  }
  return shared.there_ns > kLeastTime_ns ? shared.here_ns / shared.there_ns : 1;
}

std::optional<double> slowdown_of_kind(const SamplesByKey& by_key,
                                       const SoloByKey& solo, bool library,
                                       double expected) {
  const double bias = solo_bias(by_key, solo, library);
  std::map<std::string, ContentionKey> keys;
  for (const auto& [key, value] : by_key) {
    if (is_library(value) != library) continue;
    keys[key].samples = value.samples;
    if (const auto found = solo.find(key); found != solo.end()) {
      keys[key].alone_ns = bias * static_cast<double>(found->second->median_ns);
    }
  }
  return fit_slowdown(keys, expected);
}

UnitPrice price_of(const KeySamples& key, double slowdown) {
  double sum = 0, square = 0;
  for (const ContentionSample& sample : key.samples) {
    const double alone =
        alone_ns(sample.duration_ns, sample.beside_ns, slowdown);
    sum += alone;
    square += alone * alone;
  }
  const double count = static_cast<double>(key.samples.size());
  const double mean = sum / count;
  const double variance = std::max(0.0, square / count - mean * mean);
  return {.alone_ns = mean,
          .uncertainty_ns = std::sqrt(variance / count),
          .source = PriceSource::kMeasured};
}

struct RooflineSample {
  double flops = 0, bytes = 0, time_ns = 0, weight = 0;
};

// All that the units do over all that they take: some unit reached it.
Roofline mean_rates(const std::vector<RooflineSample>& samples) {
  double flops = 0, bytes = 0, time_ns = 0;
  for (const RooflineSample& sample : samples) {
    flops += sample.flops;
    bytes += sample.bytes;
    time_ns += sample.time_ns;
  }
  return {.flops_per_s = flops / time_ns * kNanosecondsPerSecond,
          .bytes_per_s = bytes / time_ns * kNanosecondsPerSecond};
}

// Of rates that explain the units as well, nearly the slowest: one that no unit
// reached would make all that a fused kernel computes again free. Where ops on
// their own wait for memory, as in a step of cumulative products, the best fit
// was 61 operations a nanosecond; its fused kernels ran at 14 to 22.
double doubt_of(const Roofline& candidate, const Roofline& mean) {
  constexpr double kDoubt = 0.02;
  const auto beyond = [](double rate, double reached) {
    return reached > 0 && rate > reached ? std::log(rate / reached) : 0;
  };
  return kDoubt * (beyond(candidate.flops_per_s, mean.flops_per_s) +
                   beyond(candidate.bytes_per_s, mean.bytes_per_s));
}

// Least absolute log error, weighted by the root of the time a unit takes.
Roofline fit_roofline(const std::vector<RooflineSample>& samples) {
  Roofline roofline;
  if (samples.empty()) return roofline;
  const auto roofline_of = [](const std::vector<double>& parameters) {
    return Roofline{.flops_per_s = parameters[0],
                    .bytes_per_s = parameters[1],
                    .overhead_ns = parameters[2]};
  };
  const auto error_of = [&](const Roofline& candidate) {
    double error = 0, weight = 0;
    for (const RooflineSample& sample : samples) {
      const double priced = candidate.price_ns(sample.flops, sample.bytes);
      error += sample.weight * std::abs(std::log(sample.time_ns / priced));
      weight += sample.weight;
    }
    return error / weight;
  };
  // Where the search begins: the order of a core with AVX and its memory.
  constexpr double kFlops = 3e10, kBandwidth = 8e9, kOverhead_ns = 200;
  const Roofline mean = mean_rates(samples);
  PatternSearch search([&](const std::vector<double>& parameters) {
    const Roofline candidate = roofline_of(parameters);
    return error_of(candidate) + doubt_of(candidate, mean);
  });
  roofline = roofline_of(search.minimize({kFlops, kBandwidth, kOverhead_ns}));
  roofline.residual = error_of(roofline);
  return roofline;
}

void fit_rooflines(const SamplesByKey& by_key, CostModel& costs) {
  std::vector<RooflineSample> library, kernels;
  for (const auto& [key, value] : by_key) {
    const double time_ns = costs.units.at(key).alone_ns;
    if (time_ns <= 0) continue;
    auto& list = value.unit->kind == UnitKind::kLibrary ? library : kernels;
    list.push_back({.flops = value.unit->flops,
                    .bytes = value.unit->bytes,
                    .time_ns = time_ns,
                    .weight = std::sqrt(time_ns)});
  }
  costs.library = fit_roofline(library);
  const Roofline roofline =
      kernels.empty() ? costs.library : fit_roofline(kernels);
  costs.flops_per_s = roofline.flops_per_s;
  costs.bytes_per_s = roofline.bytes_per_s;
  costs.unit_overhead_ns = roofline.overhead_ns;
  costs.roofline_residual = roofline.residual;
}

/// Ops that a roofline says little of. It is too short by half or more, and by
/// many times what a unit costs that does nothing: less may be the unit's,
/// which a larger one has but once.
void find_slow_ops(const SamplesByKey& by_key, const Schedule& recorded,
                   CostModel& costs) {
  constexpr double kTimes = 2, kOverheads = 10;
  const Roofline roofline{.flops_per_s = costs.flops_per_s,
                          .bytes_per_s = costs.bytes_per_s,
                          .overhead_ns = costs.unit_overhead_ns};
  for (const Unit& unit : recorded.units) {
    if (unit.kind != UnitKind::kKernel || unit.ops.size() != 1 ||
        !by_key.contains(unit.key))
      continue;
    const double time_ns = costs.units.at(unit.key).alone_ns;
    const double priced_ns = roofline.price_ns(unit.flops, unit.bytes);
    const double beyond_ns = time_ns - priced_ns;
    if (time_ns > kTimes * priced_ns &&
        beyond_ns > kOverheads * costs.unit_overhead_ns)
      costs.slow_ops_ns[index_of(unit.ops[0])] = beyond_ns;
  }
}

}  // namespace

ComputeSlowdowns fit_compute_slowdowns(
    const std::vector<RecordedStep>& steps, const Schedule& recorded,
    std::span<const Measurement> measurements, const Contention& expected) {
  const SamplesByKey by_key = collect(steps, recorded);
  const SoloByKey solo = solo_by_key(measurements);
  return {.library = slowdown_of_kind(by_key, solo, true, expected.library),
          .kernel = slowdown_of_kind(by_key, solo, false, expected.kernel)};
}

void fit_units(const std::vector<RecordedStep>& steps, const Schedule& recorded,
               std::span<const Measurement> measurements, CostModel& costs) {
  Contention& contention = costs.contention;
  const ComputeSlowdowns found =
      fit_compute_slowdowns(steps, recorded, measurements, contention);
  contention.library = found.library.value_or(contention.library);
  contention.kernel = found.kernel.value_or(contention.kernel);
  if (found.library || found.kernel) contention.compute_is_assumed = false;
  const SamplesByKey by_key = collect(steps, recorded);
  for (const auto& [key, value] : by_key) {
    costs.units[key] =
        price_of(value, contention_of(costs.contention, *value.unit));
  }
  fit_rooflines(by_key, costs);
  find_slow_ops(by_key, recorded, costs);
  // No entry of the trace's own is replaced. A measurement does not say of what
  // kind its unit was; what the trace lacks is mostly fused kernels.
  const SoloByKey solo = solo_by_key(measurements);
  const double bias = solo_bias(by_key, solo, false);
  for (const auto& [key, measurement] : solo) {
    const double samples =
        std::max(1.0, static_cast<double>(measurement->samples));
    costs.units.insert(
        {key,
         {.alone_ns = bias * static_cast<double>(measurement->median_ns),
          .uncertainty_ns =
              static_cast<double>(measurement->spread_ns) / std::sqrt(samples),
          .source = PriceSource::kCalibrated}});
  }
}

}  // namespace reprise
