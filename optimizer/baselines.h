// What frameworks do today, as plans: generated, priced and runnable like any
// other, so that every plan is compared with them on every run.
//
// In each, a collective is enqueued when its operands are ready.
//   none     one collective a gradient, every op its own unit, program order.
//   ddp      PyTorch's rule on gradients in ready order: a bucket closes when
//   its
//            size reaches the cap, 1 MiB first, then 25 MiB; eager ops, updates
//            last.
//   horovod  what is ready at each 1 ms cycle is fused, up to 128 MiB; frozen;
//   eager ops. xla      the 30 MiB combiner's greedy rule, producer fusion,
//   list scheduling. ddp+fusion, horovod+fusion: with operator fusion given by
//   the caller.
// Sources: PyTorch torch/csrc/distributed/c10d/reducer.hpp
// (kDefaultFirstBucketBytes, 25 MiB), Horovod HOROVOD_CYCLE_TIME and
// HOROVOD_FUSION_THRESHOLD, XLA collective combiner thresholds.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "optimizer/gradients.h"
#include "optimizer/plan_pricer.h"

namespace reprise {

/// Names in the order in which tables show them.
const std::vector<std::string>& baseline_names();

/// One baseline, priced. `fusion` is used by the `+fusion` ones only.
/// Errors: kInvalid for an unknown name; those of lowering.
Result<PricedPlanPtr> make_baseline(PlanPricer& pricer, int64_t ranks,
                                    std::string_view name,
                                    const std::vector<FusionGroup>& fusion);

/// Borders by PyTorch's rule. Gradients in ready order.
std::vector<size_t> ddp_borders(const BucketProgram& program);
/// Borders by Horovod's cycles on the program's timeline.
std::vector<size_t> horovod_borders(const BucketProgram& program);
/// Borders by XLA's combiner threshold.
std::vector<size_t> xla_borders(const BucketProgram& program);

}  // namespace reprise
