// What a computation that runs inside a unit fuses: no plan reaches into it.
#pragma once

#include <vector>

#include "data/plan/op_graph.h"
#include "data/plan/plan_choice.h"

namespace reprise {

/// Groups of elementwise ops and small dots, each with what alone reads their
/// results: elementwise ops of as many elements, the last of which may be a
/// reduction over so many; and slices and pads of at most so many, of what no
/// group computes. Such a group computes nothing twice and writes one array,
/// and what it computes has the same bits as its ops one by one (data/kernel).
/// In text order.
std::vector<ChosenGroup> fuse_elementwise(const OpGraph& graph);

}  // namespace reprise
