// What framework ran what a trace holds, as far as the names in it tell: advice
// in another one's words helps nobody.
#pragma once

#include <cstdint>

#include "data/trace/trace.h"

namespace reprise {

enum class Framework : uint8_t {
  kUnknown,  ///< Another one (TensorFlow, MXNet), or nothing says.
  kPyTorch,
  kJax,
};

/// By names of modules, operators, kernels and ranges. Cost: O(names).
Framework framework_of(const Trace& frame);

}  // namespace reprise
