// Cumulative reduce-windows that a processor takes as a recurrence.
#pragma once

#include "data/hlo/module.h"

namespace reprise {

/// Notes among its `frontend_attributes` each cumulative sum, product or
/// extreme over more elements than kernels write out well: of 1024 rows of 32
/// a kernel takes 0.1 ms, of 64 3.4 ms (GCC 12, AVX-512). Plans of before have
/// it in a kernel, so the note tells programs apart. Cost: linear.
void note_scans(const Module& module, Computation* computation);

/// True of a reduce-window that is noted.
bool is_noted_scan(const Instruction& instruction);

}  // namespace reprise
