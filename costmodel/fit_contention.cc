#include "costmodel/fit_contention.h"

#include <algorithm>
#include <cmath>

namespace reprise {
namespace {

// Weighted sums of one key; everything the loss needs is quadratic in them.
struct Moments {
  double weight = 0;
  double duration = 0, beside = 0;
  double duration2 = 0, product = 0, beside2 = 0;

  void add(const ContentionSample& sample) {
    const double w = sample.weight;
    weight += w;
    duration += w * sample.duration_ns;
    beside += w * sample.beside_ns;
    duration2 += w * sample.duration_ns * sample.duration_ns;
    product += w * sample.duration_ns * sample.beside_ns;
    beside2 += w * sample.beside_ns * sample.beside_ns;
  }
  // Relative variance of duration - share * beside, times the key's time.
  double scatter(double share) const {
    const double mean = (duration - share * beside) / weight;
    if (mean <= 0) return 0;
    const double square =
        (duration2 - 2 * share * product + share * share * beside2) / weight;
    return duration * std::max(0.0, square / (mean * mean) - 1);
  }
};

double quantile(std::vector<double> values, double at) {
  const auto place =
      values.begin() +
      static_cast<std::ptrdiff_t>(at * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), place, values.end());
  return *place;
}

// A preempted unit says nothing about its neighbours.
constexpr double kOutlier = 3;

}  // namespace

std::optional<double> fit_slowdown(const ContentionSamples& samples) {
  std::vector<Moments> keys;
  double contrast = 0, total = 0;
  for (const auto& [key, list] : samples) {
    std::vector<double> durations;
    for (const ContentionSample& sample : list) {
      durations.push_back(sample.duration_ns);
    }
    const double limit = kOutlier * quantile(durations, 0.5);
    Moments moments;
    double alone = 0, beside = 0;
    for (const ContentionSample& sample : list) {
      if (sample.duration_ns > limit || sample.duration_ns <= 0) continue;
      moments.add(sample);
      const double share = sample.beside_ns / sample.duration_ns;
      (share > 0.5 ? beside : alone) += sample.weight * sample.duration_ns;
    }
    if (moments.weight <= 0) continue;
    contrast += 2 * std::min(alone, beside);
    total += alone + beside;
    keys.push_back(moments);
  }
  constexpr double kLeastContrast = 0.003;
  if (keys.empty() || contrast < kLeastContrast * total) return std::nullopt;
  constexpr int kSteps = 360;
  constexpr double kMostShare = 0.9;
  double best_share = 0, best = INFINITY;
  for (int step = 0; step <= kSteps; ++step) {
    const double share = kMostShare * step / kSteps;
    double scatter = 0;
    for (const Moments& moments : keys) scatter += moments.scatter(share);
    if (scatter < best) {
      best = scatter;
      best_share = share;
    }
  }
  return 1 / (1 - best_share);
}

}  // namespace reprise
