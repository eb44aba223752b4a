// The graph of a priced schedule: a node for each unit on each rank, two
// streams a rank, the members of a collective side by side. Ranks that do the
// same thing fold into one.
#pragma once

#include <cstdint>
#include <vector>

#include "replay/graph/priced_schedule.h"
#include "replay/graph/timed_graph.h"

namespace reprise {

/// Ranks that behave alike share one simulated rank.
struct RankClasses {
  std::vector<uint32_t> class_of;  ///< [rank]
  std::vector<double> factor;      ///< [class]
  /// Members of each collective by place in the communication order; empty: all
  /// classes.
  std::vector<std::vector<std::vector<uint32_t>>> groups;
};
RankClasses fold_ranks(const PricedSchedule& priced);
/// Each rank a class of its own, for edits of the graph that tell them apart.
RankClasses single_ranks(const PricedSchedule& priced);

/// What holds in the step beside nodes and edges.
StepRules step_rules(const PricedSchedule& priced);

/// One step: ranks of the graph are classes (each stands for its first rank),
/// `origin` is the unit, `collective`
/// the place in the communication order, resources are 2 x class for compute
/// and one more for communication. Prices beyond 73 minutes are cut, negative
/// ones and NaN are zero. Requires: an order that the dependencies allow.
/// Cost: O(units x classes).
TimedGraph schedule_graph(const PricedSchedule& priced,
                          const RankClasses& classes);

}  // namespace reprise
