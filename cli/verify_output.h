// What `reprise verify` prints.
#pragma once

#include <optional>

#include "cli/output.h"
#include "cli/verify_runs.h"
#include "replay/verdict/run_comparison.h"

namespace reprise {

struct VerifiedChange {
  RunComparison comparison;
  double confidence = 0;
  /// How much faster the plan was predicted to be: before / after.
  std::optional<double> predicted_speed_up;
  std::optional<PlanEffect> effect;
  std::optional<PredictionGap> gap;
};

/// reprise.verify/1, a table of the two sides, or lines for people.
void print_verification(const VerifiedChange& verification, Format format);

}  // namespace reprise
