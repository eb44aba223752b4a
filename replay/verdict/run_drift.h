// Whether the machine's pace moved while runs were taken, and what of the
// change is left when it did.
//
// Model. The logarithm of a run's step is a level, the change of its side, a
// straight line in time, and a pace that wanders: a random walk whose steps
// from one run to the next have q times the variance in which runs differ
// besides. No few runs tell q, so each of some is as likely as the runs are
// under it, whatever level, change, line and variance (restricted likelihood,
// a scale-free prior of the variance): the change is a mixture of Student's t.
// Source: Harvey, "Forecasting, Structural Time Series Models and the Kalman
// Filter", 1989, chapters 3.4 and 4.1; Patterson and Thompson, Biometrika 58
// (1971), on the restricted likelihood.
#pragma once

#include <vector>

namespace reprise {

/// One run: when it was taken, in any unit, and the logarithm of its step.
struct PlacedRun {
  double place = 0, log_step = 0;
};

/// The change if the pace wanders so much, and how likely that is.
struct PaceModel {
  double weight = 0, change = 0, error = 0;
};

/// Logarithms of step times, after - before.
struct DriftFit {
  bool fits = false;   ///< The runs are enough, and of more than one time.
  double change = 0;   ///< Beside the drift: the models' mean.
  double freedom = 1;  ///< Of each model's error, for Student's t.
  double chance = 1;   ///< That runs without drift show a line as strong.
  /// Weights sum to 1; the first does not wander.
  std::vector<PaceModel> models;
};

/// Runs of one side after the other's cost half of the certainty, as a drift
/// looks like a change, and more where the pace wanders; runs taken in turn
/// cost nothing. Fits from three runs a side on. Runs vary by `least_variance`
/// at least, whatever these show. Cost: runs x log runs.
DriftFit fit_drift(const std::vector<PlacedRun>& before,
                   const std::vector<PlacedRun>& after,
                   double least_variance = 0);

/// The change that the true one is below with a chance of `share`: of the
/// mixture, or of a straight line alone where that is further out. Requires: a
/// fit that fits, share within (0, 1).
double change_quantile(const DriftFit& fit, double share);

}  // namespace reprise
