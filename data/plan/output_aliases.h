// Which outputs of a program take the place of which of its parameters.
#pragma once

#include "data/plan/op_graph.h"
#include "data/result.h"

namespace reprise {

/// Fills `updates` from the module's `input_output_alias`. Requires: outputs
/// and parameters are known. Errors: kInvalid for an alias of what does not
/// exist, of unequal sizes, or of one parameter twice.
Status bind_aliases(OpGraph* graph);

}  // namespace reprise
