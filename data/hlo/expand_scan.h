// XLA's `scan` in ops that run. JAX from 0.11 on writes it for cumsum on GPUs.
#pragma once

#include <optional>

#include "data/hlo/expansion_ops.h"
#include "data/hlo/module.h"

namespace reprise {

/// Appends to `to` a tuple, under the scan's name, of what it gives. A
/// cumulative sum, product or extreme whose steps may be combined in any order
/// is the reduce-window that JAX writes on CPU, of which the last carry is a
/// row; every other scan is a loop of its steps, as XLA's ScanExpander makes
/// it. Nothing for what is no scan as ScanForm has it (data/hlo/scan_form.h).
/// `original`: as it stands in `around`; `scan`: with operands of `to`.
std::optional<InstructionId> expand_scan(const Computation& around,
                                         const Instruction& original,
                                         const Instruction& scan,
                                         RebuiltModule* rebuilt,
                                         Computation* to);

}  // namespace reprise
