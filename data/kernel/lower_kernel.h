// From a group of HLO ops to one kernel.
#pragma once

#include <span>

#include "data/hlo/module.h"
#include "data/kernel/kernel.h"
#include "data/result.h"

namespace reprise {

/// Lowers `ops` of the entry computation into one kernel that writes `outputs`.
///
/// `ops` are non-view ops; view ops between or before them fold in by
/// themselves and may be listed. `outputs` are members of `ops`, or views to be
/// materialized. An input argument is the first non-view ancestor outside the
/// group: a parameter, a non-scalar constant, another op's result, a
/// collective's result or its get-tuple-element. Scalar constants are
/// immediate.
///
/// Errors: kUnsupported, naming an instruction that no kernel can express;
/// kInfeasible, with the reason, when the group cannot be one kernel. Cost:
/// tens of microseconds for a small group; the optimizer's test of legality.
Result<Kernel> lower_kernel(const Module& inlined,
                            std::span<const InstructionId> ops,
                            std::span<const InstructionId> outputs);

}  // namespace reprise
