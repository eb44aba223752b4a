// Elements that a kernel only moves.
#pragma once

#include <vector>

#include "data/kernel/kernel.h"

namespace reprise {

/// [value] Whether it is loaded and only stored, as it is, beside its let: its
/// bits may stay as they lie in memory, where computing would widen them. Cost:
/// linear.
std::vector<bool> moved_values(const Kernel& kernel);

}  // namespace reprise
