// What each distinct operator of a recorded run costs on the device: the time
// of the kernels that its calls launched.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/trace/trace_by_rank.h"

namespace reprise {

/// Calls of one operator with the same arguments.
struct OperatorEstimate {
  std::string name;  ///< "aten::mm".
  /// Of the tensors that it was called with, JSON arrays: "[[4,8],[8,2]]"; ""
  /// where that was not recorded.
  std::string dims, strides;
  std::string type;       ///< As recorded of the first argument: "float".
  int64_t device_ns = 0;  ///< Median over the calls of all ranks.
  int64_t calls = 0;
};

struct OperatorEstimates {
  std::vector<OperatorEstimate> operators;  ///< By name, dims, strides, type.
  /// Kernels that no operator launched, as far as was recorded.
  int64_t unowned = 0, kernels = 0;
};

/// A kernel belongs to the operator whose external id it has, else to the
/// innermost one around the call that launched it. Collectives are left out.
/// Cost: O(events log events).
OperatorEstimates estimate_operators(const TraceByRank& trace);

}  // namespace reprise
