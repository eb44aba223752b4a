// When a run has settled, how long its steps remember one another, and what a
// typical step of it takes.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace reprise {

/// How many steps to cut off the front as warm-up: those whose removal makes
/// the mean of the rest most certain, counted in fives, each its median; never
/// more than half, and nothing that is not slower than three quarters of the
/// rest.
/// Source: MSER-5; White, Cobb and Spratt, "A comparison of five steady-state
/// truncation heuristics for simulation", WSC 2000; medians of the fives in
/// place of means, so that one late step moves nothing. Cost: linear.
size_t warmup_steps(std::span<const double> step_ns);

/// Mean of the values but for `share` of them at each end: 0 of none. It
/// changes little when few are extreme. Requires: share below 1/2. Cost:
/// linear.
double trimmed_mean(std::vector<double> values, double share);

/// Variance of the logarithm of a run's mean step, over all runs, for changes
/// of pace that last longer than five steps: of the medians of its fives, as
/// long as these remember one another. What most runs do at the same place (a
/// warm-up, a device that heats up) is no change of pace. Runs of fewer than 20
/// steps tell nothing; 0 where all do. Requires: values above zero.
double pace_variance(const std::vector<std::span<const double>>& runs);

/// Length of blocks that are resampled as one: twice the time over which
/// values remember one another (the sum of autocorrelations until the first
/// that is none), n^(1/3) at least, a quarter of them at most. 1 of few values.
size_t block_length(std::span<const double> values);

}  // namespace reprise
