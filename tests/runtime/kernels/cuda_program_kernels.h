// The kernels of every shipped program under plans with and without fusion.
#pragma once

#include <random>
#include <vector>

#include "data/kernel/kernel.h"

namespace reprise {

/// Each distinct kernel once: under the identity plan, XLA's fusion, our own
/// fusion and a random valid plan.
std::vector<Kernel> program_kernels();

/// Memory of an argument: floats around 0, whole numbers from -1 to 60 (rows of
/// a table of 62, and what misses it), preds; outputs are poisoned. Kernels
/// that take roots make NaNs of it.
std::vector<char> random_argument(const KernelArgument& argument,
                                  std::mt19937_64& generator);

}  // namespace reprise
