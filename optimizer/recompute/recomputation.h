// Plans in which units compute values again instead of reading them.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "data/plan/op_graph.h"
#include "data/plan/plan_choice.h"
#include "optimizer/pricing/plan_pricer.h"

namespace reprise {

/// A unit of a plan that computes nothing twice, by its last op.
using UnitKey = InstructionId;
/// What units compute again, before their own ops.
using Recomputed = std::map<UnitKey, std::set<InstructionId>>;

/// Plans made of one that computes nothing twice.
class Recomputation {
 public:
  /// `priced` is that plan. The graph must outlive this.
  Recomputation(const OpGraph& graph, const PricedPlan& priced);

  /// That plan with `recomputed`; what nobody reads any more is left out. Its
  /// groups stand in order of execution, so that of units that compute a value
  /// the first writes it.
  PlanChoice plan_of(const Recomputed& recomputed) const;

  /// What to compute again so that fewest bytes are kept across the fullest
  /// moment of the step of `priced`, which is `plan_of(recomputed)`: that and
  /// what `recomputed` holds. Only elementwise kernel ops are computed again,
  /// by units that are kernels and not in `fixed`.
  Recomputed at_fullest_moment(const PricedPlan& priced,
                               const Recomputed& recomputed,
                               const std::set<UnitKey>& fixed) const;

  /// What a kernel of any of these plans is in the first one.
  UnitKey key_of(const Unit& kernel) const { return key_of(kernel.ops.back()); }

 private:
  class Moment;
  UnitKey key_of(InstructionId op) const { return key_[index_of(op)]; }
  void drop_unread(std::vector<ChosenGroup>* groups) const;

  const OpGraph& graph_;
  PlanChoice base_;
  std::vector<UnitKey> key_;     ///< [op] Of its unit in the base plan.
  std::vector<uint32_t> place_;  ///< [last op of a unit] Among the units.
};

}  // namespace reprise
