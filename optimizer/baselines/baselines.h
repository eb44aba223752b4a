// What frameworks do today, as plans: generated, priced and runnable like any
// other, so that every plan is compared with them on every run.
//
// In each, a collective is enqueued when its operands are ready.
//
// - none: one collective a gradient, every op its own unit, program order.
// - ddp: PyTorch's rule (pytorch_buckets) on gradients in ready order, caps
//   1 MiB, then 25 MiB; eager ops, updates last.
// - horovod: what is ready at each 1 ms cycle is fused, up to 128 MiB, and a
//   cycle lasts until its transfers have ended; simulated on the timeline and
//   frozen; eager ops, updates last.
// - xla: the combiner's greedy rule, at most 30 MiB + 7 B and 256 operands;
//   producers fused into the one consumer that they have, list scheduling by
//   critical path.
// - ddp+fusion, horovod+fusion: with operator fusion given by the caller.
//
// Sources: PyTorch torch/csrc/distributed/c10d/reducer.hpp
// (kDefaultFirstBucketBytes, kDefaultBucketBytesCap); Horovod
// horovod/common/operations.cc (BackgroundThreadLoop:
// SetTensorFusionThresholdBytes, SetCycleTimeMs); XLA
// xla/service/collective_utils.h (kDefaultAllReduceCombineThreshold) and
// AllReduceCombiner's count of 256.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "optimizer/buckets/gradients.h"
#include "optimizer/pricing/plan_pricer.h"

namespace reprise {

/// Names in the order in which tables show them.
const std::vector<std::string>& baseline_names();

/// One baseline, priced. `fusion` is used by the `+fusion` ones only.
/// Errors: kInvalid for an unknown name; those of lowering.
Result<PricedPlanPtr> make_baseline(PlanPricer& pricer, int64_t ranks,
                                    std::string_view name,
                                    const std::vector<ChosenGroup>& fusion);

/// One baseline as a plan with its predicted step time. `+fusion` ones have the
/// groups of `fusion`; without it, those that these costs alone suggest, which
/// are not quite what `optimize` ends with after measuring. Errors: those of
/// `make_baseline`; kInvalid for groups that the program does not have.
Result<Plan> baseline_plan(std::string_view name, const InlinedModule& inlined,
                           int64_t ranks, const CostModel& costs,
                           const Plan* fusion = nullptr);

/// Buckets by PyTorch's rule under its own caps.
std::vector<GradientGroup> ddp_groups(const BucketProgram& program);
/// Borders by Horovod's cycles on the program's timeline.
std::vector<size_t> horovod_borders(const BucketProgram& program);
/// Borders by XLA's combiner threshold.
std::vector<size_t> xla_borders(const BucketProgram& program);

}  // namespace reprise
