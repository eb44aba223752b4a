// What a computation that runs inside a unit fuses: no plan reaches into it.
#pragma once

#include <vector>

#include "data/plan/op_graph.h"
#include "data/plan/plan_choice.h"

namespace reprise {

/// Groups of elementwise ops and small dots, each with what alone reads their
/// results: elementwise ops of as many elements, the last of which may be a
/// reduction over so many; and slices and pads of at most so many, of what no
/// group computes. Groups that end in an elementwise op and read each other are
/// one where their results have the same dimensions, as the rounds of a random
/// number generator's step. A group computes nothing twice, and what it
/// computes has the same bits as its ops one by one (data/kernel). In text
/// order.
std::vector<ChosenGroup> fuse_elementwise(const OpGraph& graph);

}  // namespace reprise
