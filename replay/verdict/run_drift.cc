#include "replay/verdict/run_drift.h"

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>

namespace reprise {
namespace {

struct Moments {
  double place = 0, log_step = 0;  // Means.
};

Moments means_of(const std::vector<PlacedRun>& runs) {
  Moments means;
  for (const PlacedRun& run : runs) {
    means.place += run.place / static_cast<double>(runs.size());
    means.log_step += run.log_step / static_cast<double>(runs.size());
  }
  return means;
}

}  // namespace

DriftFit fit_drift(const std::vector<PlacedRun>& before,
                   const std::vector<PlacedRun>& after, double least_variance) {
  constexpr size_t kFewest = 3;
  if (std::min(before.size(), after.size()) < kFewest) return {};
  double places = 0, products = 0, squares = 0;
  for (const auto* side : {&before, &after}) {
    const Moments means = means_of(*side);
    for (const PlacedRun& run : *side) {
      const double place = run.place - means.place;
      const double step = run.log_step - means.log_step;
      places += place * place;
      products += place * step;
      squares += step * step;
    }
  }
  if (places <= 0) return {};
  const Moments first = means_of(before), second = means_of(after);
  const double apart = second.place - first.place;
  const double slope = products / places;
  const auto runs = static_cast<double>(before.size() + after.size());
  DriftFit fit{.fits = true};
  fit.freedom = runs - 3;
  const double variance =
      std::max(least_variance, (squares - slope * products) / fit.freedom);
  fit.drift = slope * apart;
  fit.change = second.log_step - first.log_step - fit.drift;
  fit.error = std::sqrt(variance * (1 / static_cast<double>(before.size()) +
                                    1 / static_cast<double>(after.size()) +
                                    apart * apart / places));
  const double strength = std::fabs(slope) / std::sqrt(variance / places);
  const boost::math::students_t chance(fit.freedom);
  fit.chance = std::isfinite(strength)
                   ? 2 * boost::math::cdf(complement(chance, strength))
                   : static_cast<double>(slope == 0);
  return fit;
}

}  // namespace reprise
