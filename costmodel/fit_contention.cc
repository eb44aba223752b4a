// One slow-down from totals over all runs, with a prior: see the header. It is
// a ratio of sums, so a run counts by its time and not by its number.
#include "costmodel/fit_contention.h"

#include <algorithm>

namespace reprise {
namespace {

constexpr double kApartShare =
    0.02;  // Share beside transfers that still is alone.

// Mean of the runs beside nothing, or 0.
double own_alone_ns(const std::vector<ContentionSample>& samples) {
  double total = 0, count = 0;
  for (const ContentionSample& sample : samples) {
    if (sample.beside_ns > kApartShare * sample.duration_ns) continue;
    total += sample.duration_ns;
    count += 1;
  }
  return count > 0 ? total / count : 0;
}

}  // namespace

std::optional<double> fit_slowdown(
    const std::map<std::string, ContentionKey>& keys, double expected) {
  double excess_ns = 0, beside_ns = 0, total_ns = 0;
  for (const auto& [name, key] : keys) {
    const double alone =
        key.alone_ns > 0 ? key.alone_ns : own_alone_ns(key.samples);
    if (alone <= 0) continue;
    for (const ContentionSample& sample : key.samples) {
      excess_ns += sample.duration_ns - alone;
      beside_ns += sample.beside_ns;
      total_ns += sample.duration_ns;
    }
  }
  if (beside_ns <= 0) return std::nullopt;
  // Machine speed drifts by some percent from run to run: evidence from less
  // than this share of the time is mostly drift.
  constexpr double kPriorShare = 0.03;
  constexpr double kMostShare = 2.0 / 3;
  const double prior_ns = kPriorShare * total_ns;
  const double expected_share = 1 - 1 / std::max(1.0, expected);
  const double share =
      (excess_ns + expected_share * prior_ns) / (beside_ns + prior_ns);
  return 1 / (1 - std::clamp(share, 0.0, kMostShare));
}

}  // namespace reprise
