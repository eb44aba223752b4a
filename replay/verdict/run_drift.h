// Whether the machine's pace moved while runs were taken, and what of the
// change is left when it did: one straight line in time through the runs of
// both sides, with a step between them (analysis of covariance).
#pragma once

#include <vector>

namespace reprise {

/// One run: when it was taken, in any unit, and the logarithm of its step.
struct PlacedRun {
  double place = 0, log_step = 0;
};

/// Logarithms of step times, after - before.
struct DriftFit {
  bool fits = false;   ///< The runs are enough, and of more than one time.
  double change = 0;   ///< Beside the drift.
  double error = 0;    ///< Standard error of `change`.
  double freedom = 1;  ///< Of `error`, for Student's t.
  double drift = 0;    ///< From the middle of one side to that of the other.
  double chance = 1;   ///< That runs without any drift show one as strong.
};

/// Runs of one side after the other's cost half of the certainty, as a drift
/// looks like a change; runs taken in turn cost nothing. Fits from three runs a
/// side on. Runs vary by `least_variance` at least, whatever these show.
DriftFit fit_drift(const std::vector<PlacedRun>& before,
                   const std::vector<PlacedRun>& after,
                   double least_variance = 0);

}  // namespace reprise
