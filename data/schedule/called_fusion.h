// What a computation that runs inside a unit fuses: no plan reaches into it.
#pragma once

#include <vector>

#include "data/plan/op_graph.h"
#include "data/plan/plan_choice.h"

namespace reprise {

/// Which rules.
enum class CalledFusion : uint8_t {
  kRowsApart,  ///< Those of plans and traces of before data/hlo/called_rows.h.
  kLoops,      ///< What the loops of a processor gain from.
  /// Also rows with their sums and what is made of those: fewer launches, which
  /// on a GPU take longer than small arrays, where short rows would leave a
  /// processor's vectors half empty (gpt_scan: 1.15 times as long on a CPU).
  kLaunches,
};

/// Groups of elementwise ops and small dots, turned or not, each with what
/// alone reads their results: elementwise ops of as many elements, the last of
/// which may be a reduction over so many; and slices and pads of at most so
/// many, of what no group computes, dynamic slices in one piece of what the
/// program leaves as it is among them. Groups that end in an elementwise op and
/// read each other in place are one where their results have the same
/// dimensions, as the rounds of a random number generator's step; with
/// kLaunches also where one goes over rows whose sums the other is, or computes
/// with. Small rows that a scan reads from its stacks at one place, and those
/// that it writes to them, are one group each. A group computes nothing twice,
/// and what it computes has the same bits as its ops one by one (data/kernel).
std::vector<ChosenGroup> fuse_called(const OpGraph& graph, CalledFusion fusion);

}  // namespace reprise
