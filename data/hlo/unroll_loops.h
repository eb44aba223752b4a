// Short loops over integers, made straight.
#pragma once

#include <functional>

#include "data/hlo/module.h"
#include "data/result.h"

namespace reprise {

/// Gives a while of the entry that is counted to 8 or less, and whose body
/// computes integers alone, a body that does all its steps: the loop then runs
/// once, one kernel may hold all steps, and what stands between them stays in
/// registers. So are the rounds of ThreeFry, which JAX leaves in a loop of five
/// steps on CPU: any mask of a dropout, any normal numbers. Integers, so no bit
/// changes; the entry and its units stay as they are. Loops inside loops are
/// for the module that the body becomes (data/hlo/routine.h). `flat` gives a
/// computation of the module without calls; a loop for whose body it fails
/// stays. Cost: linear, 8 times the size of such bodies.
void unroll_loops(const std::function<Result<Computation>(ComputationId)>& flat,
                  Module* module);

}  // namespace reprise
