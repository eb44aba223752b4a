// Operator fusion: greedy merges of producers with consumers and of siblings,
// each bought only when the fused unit is priced below its parts.
//
// A dot may take in the ops after it that a library runs as its epilogue.
//
// A merge is legal when the group stays convex (so it crosses no collective),
// when `lower_kernel` makes it one kernel (or `match_dot_epilogue` one call),
// and when it delays nothing: groups that wait for different collectives stay
// apart, and what feeds a collective is not merged with work done much later.
// Decisions are memoised by structure, so that the same block is lowered once
// and decided alike everywhere.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "costmodel/cost_model.h"
#include "data/plan/plan_choice.h"
#include "data/schedule/schedule.h"
#include "data/schedule/schedule_cache.h"

namespace reprise {

struct FusionOptions {
  bool siblings = true;
  /// Merges whatever is legal among producers that only their consumer reads,
  /// whatever the price: XLA's producer fusion.
  bool producers_only = false;
  /// Dots take in epilogues, where that is estimated to save more than what the
  /// same ops save in a kernel.
  bool dot_epilogues = false;
};

/// How `choose` prices a group that was never measured inside one that was.
enum class UnknownPrices : uint8_t {
  kEstimate,        ///< By its estimate: worth a measurement.
  kLikeTheirWhole,  ///< As far above its estimate as the whole was: final.
};

/// Every merge taken, as a tree over the ops: prices learnt later undo merges
/// that do not pay.
class FusionTree {
 public:
  /// Merges by `costs`. `cache` has been opened for the program and must
  /// outlive the tree. Cost: about 1 s for 3000 ops, most of it lowering.
  static Result<FusionTree> build(ScheduleCache& cache, const CostModel& costs,
                                  const FusionOptions& options);

  /// The groups of several ops that are cheapest under `costs`: a merge whose
  /// measured price is above that of its parts is undone. In text order.
  std::vector<ChosenGroup> choose(
      const CostModel& costs,
      UnknownPrices unknown = UnknownPrices::kEstimate) const;

  /// Every merge, whatever it turned out to cost.
  std::vector<ChosenGroup> merged() const;

 private:
  struct Node {
    std::vector<InstructionId> ops;
    int64_t left = -1, right = -1;  ///< What it was merged from, or -1.
    UnitKind kind = UnitKind::kKernel;
    std::string key;
    double flops = 0, bytes = 0;
    double estimate_ns = 0;  ///< Where its key has no measured price.
    bool is_root = false;
  };
  class Builder;

  /// Groups of the roots, taken apart where `split` [node] says so.
  std::vector<ChosenGroup> groups(const std::vector<bool>& split) const;
  std::vector<double> prices(const CostModel& costs,
                             UnknownPrices unknown) const;

  std::vector<Node> nodes_;  ///< Parts before what they became.
};

}  // namespace reprise
