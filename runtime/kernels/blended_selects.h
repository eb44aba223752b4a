// Selects that a loop makes by one answer for all of its elements.
#pragma once

#include <vector>

#include "data/kernel/kernel.h"

namespace reprise {

/// [value] Whether it is a select whose condition is made outside of the
/// innermost loop around it, as for whole rows of a padding, and too many such
/// for the host compiler. Of few it makes a loop for each answer; of more, in a
/// loop that computes something, no vectors at all (g++ 12: 64 rows of 96 sums
/// and exponentials behind 4 paddings took 105 us), but does of the same choice
/// made with the bits of both. Cost: statements × their logarithm.
std::vector<bool> blended_selects(const Kernel& kernel);

}  // namespace reprise
