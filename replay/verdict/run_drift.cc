#include "replay/verdict/run_drift.h"

#include <algorithm>
#include <array>
#include <boost/math/tools/toms748_solve.hpp>
#include <cmath>
#include <cstdint>
#include <limits>

#include "replay/verdict/students_t.h"

namespace reprise {
namespace {

/// Variances of the walk from one run to the next, in those of the runs.
constexpr std::array kWanders = {0.0, 0.1, 1.0, 3.0, 10.0, 30.0, 100.0, 1000.0};

/// What is fitted, and the run's value, last.
using DesignRow = std::array<double, 4>;
constexpr size_t kSide = 2, kValue = 3;

struct Design {
  std::vector<double> apart;    ///< From the run before, in mean distances.
  std::vector<DesignRow> rows;  ///< Level, place, side, value; by place.
};

Design design_of(const std::vector<PlacedRun>& before,
                 const std::vector<PlacedRun>& after) {
  Design design;
  for (const PlacedRun& run : before)
    design.rows.push_back({1, run.place, 0, run.log_step});
  for (const PlacedRun& run : after)
    design.rows.push_back({1, run.place, 1, run.log_step});
  std::stable_sort(design.rows.begin(), design.rows.end(),
                   [](const DesignRow& one, const DesignRow& other) {
                     return one[1] < other[1];
                   });
  const auto gaps = static_cast<double>(design.rows.size() - 1);
  const double first = design.rows.front()[1];
  const double mean = (design.rows.back()[1] - first) / gaps;
  if (mean <= 0) return {};
  double last = 0;
  for (DesignRow& row : design.rows) {
    row[1] = (row[1] - first) / mean;
    design.apart.push_back(row[1] - last);
    last = row[1];
  }
  return design;
}

/// Rows that are independent and of one variance when the pace wanders so
/// (Kalman's innovations), and the logarithm of the covariance's determinant.
double whiten(const std::vector<double>& apart, double wander,
              std::vector<DesignRow>& rows) {
  double variance = 0, log_determinant = 0;
  DesignRow mean = {};
  for (size_t i = 0; i < rows.size(); ++i) {
    variance += wander * apart[i];
    const double spread = variance + 1;
    for (size_t column = 0; column < mean.size(); ++column) {
      const double off = rows[i][column] - mean[column];
      mean[column] += off * variance / spread;
      rows[i][column] = off / std::sqrt(spread);
    }
    variance /= spread;
    log_determinant += std::log(spread);
  }
  return log_determinant;
}

/// Each column less what the columns before it explain, by Gram and Schmidt:
/// what is left of each, squared; and the last one's share in each.
struct Fitted {
  DesignRow squares = {}, value = {};
};

Fitted fit(std::vector<DesignRow> rows) {
  Fitted fitted;
  for (size_t column = 0; column < fitted.squares.size(); ++column) {
    double& squares = fitted.squares[column];
    for (const DesignRow& row : rows) squares += row[column] * row[column];
    for (size_t later = column + 1; later < fitted.squares.size(); ++later) {
      double product = 0;
      for (const DesignRow& row : rows) product += row[column] * row[later];
      const double share = squares > 0 ? product / squares : 0;
      for (DesignRow& row : rows) row[later] -= share * row[column];
      if (later == kValue) fitted.value[column] = share;
    }
  }
  return fitted;
}

/// The chance of a slope as strong as this line's if runs had none: of the
/// model without a walk.
double chance_of_line(const Design& design, double variance, double freedom) {
  std::vector<DesignRow> rows = design.rows;
  for (DesignRow& row : rows)
    std::swap(row[1], row[kSide]);  // Line after side.
  const Fitted fitted = fit(std::move(rows));
  const double strength = std::fabs(fitted.value[kSide]) /
                          std::sqrt(variance / fitted.squares[kSide]);
  const StudentsT chance(freedom);
  return std::isfinite(strength)
             ? 2 * boost::math::cdf(complement(chance, strength))
             : static_cast<double>(fitted.value[kSide] == 0);
}

}  // namespace

DriftFit fit_drift(const std::vector<PlacedRun>& before,
                   const std::vector<PlacedRun>& after, double least_variance) {
  constexpr size_t kFewest = 3;
  constexpr double kNothing = 1e-24;  // Squares that are but rounding.
  if (std::min(before.size(), after.size()) < kFewest) return {};
  const Design design = design_of(before, after);
  if (design.rows.empty()) return {};
  DriftFit result;
  result.fits = true;
  result.freedom = static_cast<double>(design.rows.size()) - 3;
  std::vector<double> likelihoods;
  for (const double wander : kWanders) {
    std::vector<DesignRow> rows = design.rows;
    const double log_determinant = whiten(design.apart, wander, rows);
    const Fitted fitted = fit(std::move(rows));
    const auto& [level, line, side, left] = fitted.squares;
    if (line <= kNothing || side <= kNothing) return {};
    const double variance =
        std::max(left / result.freedom, least_variance / (1 + wander));
    if (wander == 0)
      result.chance = chance_of_line(design, variance, result.freedom);
    result.models.push_back({.weight = 0,
                             .change = fitted.value[kSide],
                             .error = std::sqrt(variance / side)});
    likelihoods.push_back(-0.5 * (log_determinant + std::log(level) +
                                  std::log(line) + std::log(side)) -
                          0.5 * result.freedom *
                              std::log(std::max(left, kNothing)));
  }
  const double most = *std::max_element(likelihoods.begin(), likelihoods.end());
  double all = 0;
  for (const double each : likelihoods) all += std::exp(each - most);
  for (size_t i = 0; i < likelihoods.size(); ++i) {
    PaceModel& model = result.models[i];
    model.weight = std::exp(likelihoods[i] - most) / all;
    result.change += model.weight * model.change;
  }
  return result;
}

double change_quantile(const DriftFit& fit, double share) {
  const StudentsT chance(fit.freedom);
  const double off = boost::math::quantile(chance, share);
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const PaceModel& model : fit.models) {
    low = std::min(low, model.change + off * model.error);
    high = std::max(high, model.change + off * model.error);
  }
  // The mixture's quantile lies between its models'.
  const auto more_below = [&](double change) {
    double below = 0;
    for (const PaceModel& model : fit.models) {
      const double distance = change - model.change;
      const double at = model.error > 0
                            ? boost::math::cdf(chance, distance / model.error)
                            : static_cast<double>(distance >= 0);
      below += model.weight * at;
    }
    return below - share;
  };
  if (more_below(low) < 0 && more_below(high) > 0) {
    std::uintmax_t most_steps = 60;
    constexpr int kBits = 40;
    high = boost::math::tools::toms748_solve(
               more_below, low, high,
               boost::math::tools::eps_tolerance<double>(kBits), most_steps)
               .second;
  }
  // Runs taken in turn that do not wander look surer to models that do.
  const PaceModel& line = fit.models.front();
  const double alone = line.change + off * line.error;
  return share < 0.5 ? std::min(high, alone) : std::max(high, alone);
}

}  // namespace reprise
