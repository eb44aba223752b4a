// A program in the order and the buckets of its plan, as a scheduled HLO
// module: what XLA leaves as it is.
#pragma once

#include "data/hlo/module.h"
#include "data/plan/op_graph.h"
#include "data/plan/plan_choice.h"
#include "data/schedule/schedule.h"

namespace reprise {

/// Entry in the order of the schedule's units; a bucket is one variadic
/// all-reduce-start where its unit stands, done before its first reader; views
/// and constants stand before their first readers. Names lose the slashes of
/// inlined calls, which XLA does not read. Chunks of a bucket are one.
/// Requires: `choice` and `schedule` are of the program of `graph`.
Module scheduled_module(const InlinedModule& program, const OpGraph& graph,
                        const PlanChoice& choice, const Schedule& schedule);

}  // namespace reprise
