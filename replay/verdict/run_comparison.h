// Whether steps changed from one set of runs to another, and how sure that is.
//
// Model. With x = log(step time): a run's value is the logarithm of the trimmed
// mean of its steps behind the warm-up; a side's is the mean over its runs; the
// change is after - before. Machines differ from run to run more than from step
// to step, so runs are resampled, and within each of them blocks of steps. The
// resampled sides' variance, times n/(n - 1) for the n runs that are all there
// are, gives the standard error; Student's t with Welch's degrees of freedom
// makes an interval of it. It then holds also the interval of a change beside a
// drift of the machine's pace (run_drift.h), which takes its place where a
// drift shows. Source: Hesterberg, "What Teachers Should Know About the
// Bootstrap", The American Statistician 69 (2015), on why few runs need both;
// Kalibera and Jones, "Rigorous Benchmarking in Reasonable Time", ISMM 2013, on
// levels.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "replay/verdict/step_run.h"

namespace reprise {

enum class Verdict : uint8_t {
  kFaster,
  kNoDifference,
  kSlower,
  kNotComparable
};

/// "faster", "no difference", "slower", "not comparable".
std::string_view name_of(Verdict verdict);

struct ComparisonOptions {
  double confidence = 0.99;
  bool alternating = false;  ///< Lists in turn: before, after, before, …
  uint64_t seed = 0;
};

struct SideSummary {
  size_t runs = 0, steps = 0, warmup_steps = 0;  ///< `steps` behind warm-up.
  double step_ns = 0;  ///< Geometric mean over runs of their trimmed means.
  double mean_ns = 0, p90_ns = 0;  ///< Over all steps behind warm-up.
  double spread = 0;  ///< Standard deviation of the runs' values; 0 of one.
};

/// Changes are shares of the step before: 0.1 is 10 % slower.
struct RunComparison {
  Verdict verdict = Verdict::kNotComparable;
  SideSummary before, after;
  double change = 0, low = 0, high = 0;  ///< With `confidence`.
  /// The smallest change that such runs show with `confidence`, as often as
  /// that: infinite where none would.
  double detectable = 0;
  double drift =
      0;  ///< Between the sides, part of the interval; 0: none shows.
  bool by_reference = false;  ///< Steps were divided by their references.
  std::vector<std::string> remarks;  ///< Whole sentences; why, first.
};

/// Deterministic. Requires: a run on each side, each with a step; confidence
/// within (0, 1).
RunComparison compare_runs(const std::vector<StepRun>& before,
                           const std::vector<StepRun>& after,
                           const ComparisonOptions& options = {});

}  // namespace reprise
