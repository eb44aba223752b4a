// A run's results against another framework's (data/manifest/reference.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/manifest/manifest.h"
#include "data/manifest/reference.h"
#include "data/result.h"
#include "runtime/train/training_run.h"

namespace reprise {

struct TensorCheck {
  std::string name;
  int64_t parameter = 0;
  double relative_error = 0;  ///< Of the change since step 0, L2.
  bool passed = false;
};

struct Verification {
  double limit = 0;       ///< On every relative error.
  double worst_loss = 0;  ///< Largest relative error of a step's loss, or NaN.
  std::vector<TensorCheck> tensors;

  bool loss_passed() const { return worst_loss <= limit; }
  bool passed() const;               ///< The losses and every tensor.
  const TensorCheck* worst() const;  ///< Null without tensors.
};

/// 1e-3 where the state holds Adam's moments (`m.NAME` and `v.NAME` beside
/// `NAME`), else 1e-4: Adam divides by moments that start near zero, which
/// magnifies rounding.
double verification_limit(const Manifest& manifest);

/// Compares every state tensor and the losses, if there are any. Errors:
/// kInvalid when the run took another number of steps than the reference, or
/// lacks a reference or one of a tensor or loss.
Result<Verification> verify(const Manifest& manifest, const TrainingRun& run,
                            const std::vector<double>& losses);

}  // namespace reprise
