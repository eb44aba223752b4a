// What an OpGraph says by table once roles and producers are known: slots of
// collectives, results of routines, readers of values.
#pragma once

#include "data/plan/op_graph.h"

namespace reprise {

/// Fills `slots` and `first_slot`.
void collect_slots(OpGraph* graph);
/// Fills `results`.
void collect_results(OpGraph* graph);
/// Makes `inputs` ascending, each once, and fills `readers` from them.
void collect_readers(OpGraph* graph);

}  // namespace reprise
