// The collectives that tensor fusion is about: in ready order on a replayed
// timeline, with their sizes and the updates that wait for them. Beside
// gradients, which no other collective waits for, those of earlier waves: a
// first gradient that the point of a second one depends on (SAM), moments of
// batch norm, the discriminator's before the generator's.
#pragma once

#include <span>
#include <vector>

#include "optimizer/buckets/bucket_program.h"
#include "optimizer/buckets/pytorch_buckets.h"
#include "optimizer/pricing/plan_pricer.h"

namespace reprise {

struct Gradient {
  int32_t slot = 0;  ///< Of the OpGraph.
  ReadyGradient figures;
};

/// Slots of collectives that others wait for (parameters that are gathered,
/// statistics of a batch), but not for each other, and that may share a bucket,
/// by ready time; two or more.
using Wave = std::vector<int32_t>;

struct Gradients {
  std::vector<Gradient> list;   ///< Ascending ready time, ties in text order.
  std::vector<Wave> waves;      ///< Ascending depth.
  int64_t compute_free_ns = 0;  ///< End of the last early compute unit.
  /// [key] a collective unit of that type, groups, reduction.
  std::vector<Unit> samples;
};

/// Reads readiness off a replay of `plan` (any buckets).
Gradients gradients_of(const PlanPricer& pricer, const PricedPlan& plan);

/// The program of these gradients. `gradients` and `costs` must outlive it.
BucketProgram bucket_program_of(const Gradients& gradients,
                                const CostModel& costs);

/// Those of the list of each key, in its order: what may share a bucket stands
/// side by side.
std::vector<Gradients> by_key(const Gradients& gradients);
/// The list itself where that is so already, else by_key.
std::vector<Gradients> runs_of_keys(const Gradients& gradients);

/// Buckets from borders over the list, in ready order. A gradient alone in its
/// bucket stays a collective of its own.
std::vector<ChosenBucket> buckets_of(const Gradients& gradients,
                                     const std::vector<size_t>& borders);
/// The same of slots in that order.
std::vector<ChosenBucket> buckets_of(std::span<const int32_t> slots,
                                     const std::vector<size_t>& borders);
/// The same from the members of each.
std::vector<ChosenBucket> buckets_of(const Gradients& gradients,
                                     const std::vector<GradientGroup>& groups);

/// Of the plan's buckets, those within one of these waves.
std::vector<ChosenBucket> wave_buckets(const Gradients& gradients,
                                       const PlanChoice& plan);

}  // namespace reprise
