// State of the step that goes through a loop or a conditional: results that
// replace parameters of the program whose old value it takes.
#pragma once

#include <cstdint>
#include <vector>

#include "data/plan/op_graph.h"

namespace reprise {

struct CalledState {
  /// [array of the result] Parameter of the program that it replaces, over
  /// whose old value it may be written; or -1.
  std::vector<int32_t> replaces;
  /// Of a conditional, [branch][array of the result]: the branch's parameter
  /// that holds the old value, or -1, where the result is a new one.
  std::vector<std::vector<int32_t>> old_value;
};

/// A result counts only if the old value is taken once at most, by each branch
/// and by a loop in its own place. Empty for other routines. Requires: the
/// graph's analysis is complete.
CalledState called_state(const OpGraph& graph, InstructionId routine);

}  // namespace reprise
