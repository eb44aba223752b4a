// Refinement as a pass: local search on the best plan's order, one unit moved
// past a few neighbours at a time, each order replayed with the slow-down that
// the streams cause each other. The order search before it holds durations
// fixed, so it cannot see what a move gains by that.
//
// Takes an evaluation of `--evaluations` a move, so it runs where it is asked
// for; a plan that is not better is never taken.
#pragma once

#include "optimizer/search/pass.h"

namespace reprise {

PassEntry refine_pass();

}  // namespace reprise
