// The kernels of every shipped program under plans with and without fusion.
#pragma once

#include <vector>

#include "data/kernel/kernel.h"

namespace reprise {

/// Each distinct kernel once: under the identity plan, XLA's fusion, our own
/// fusion and a random valid plan.
std::vector<Kernel> program_kernels();

}  // namespace reprise
