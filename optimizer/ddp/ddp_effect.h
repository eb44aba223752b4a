// What became of a plan's buckets in a recorded rerun, and why its step is not
// the predicted one.
//
// The difference is told in parts, each the step of the model with one more of
// the rerun's facts in place of the plan's: first when its gradients were ready
// and how long its step went on after (pace: the compute's), then what its
// transfers cost (price), then the buckets that it really had (structure). What
// is left between that model and the rerun's measured step is unexplained.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/plan/plan.h"
#include "data/result.h"
#include "optimizer/ddp/ddp_recording.h"

namespace reprise {

struct BucketEffect {
  bool same_gradients = true;       ///< The recorded ones are the planned ones.
  bool in_effect = false;           ///< All buckets as planned, in this order.
  bool as_single_cap = false;       ///< Those of the plan's single cap instead.
  std::vector<int64_t> seen_bytes;  ///< [bucket] in the order of transfers.
  /// The first bucket that differs, in a sentence; "" where none does.
  std::string difference;
};

/// Requires: `plan.trace`. Errors: as ddp_arguments.
Result<BucketEffect> bucket_effect(const Plan& plan, const std::string& path,
                                   const DdpRecording& rerun);

/// Steps in nanoseconds; each part is later minus earlier, slower is positive.
struct PredictionGap {
  double predicted_ns = 0;  ///< By the recording before, of the plan's buckets.
  double pace_ns = 0, price_ns = 0, structure_ns = 0;
  double unexplained_ns = 0;
  double measured_ns = 0;  ///< The rerun's median step.
};

/// Requires: recordings of the same gradients, whose order of readiness may
/// differ; `plan.trace`. Cost: a few simulations.
PredictionGap explain_prediction(const Plan& plan, const DdpRecording& before,
                                 const DdpRecording& rerun);

}  // namespace reprise
