// Ranks of processes whose records know communicators and no job.
#pragma once

#include <span>

#include "data/formats/ranks.h"

namespace reprise {

/// Numbers the inputs, which are all of NCCL's plugins and of one process and
/// rank each, by host, as these come, and process; notes it in each. False
/// where they are others, or hosts and processes do not tell them apart.
bool number_processes(std::span<const RankedInput> inputs);

}  // namespace reprise
