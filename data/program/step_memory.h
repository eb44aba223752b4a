// What a rank holds of memory while it runs a step.
#pragma once

#include <cstdint>

#include "data/hlo/module.h"
#include "data/result.h"

namespace reprise {

/// Bytes of the arena as lower_schedule plans it without a plan, each op a
/// unit.
struct StepMemory {
  int64_t peak_bytes = 0;  ///< Parameters, constants and temporaries.
  int64_t parameter_bytes = 0;
  int64_t constant_bytes = 0;
  int64_t temporary_bytes = 0;
  /// Of the temporaries, results that do not lie in a parameter's bytes.
  int64_t output_bytes = 0;
};

/// Errors: why the program is not lowered. Cost: a lowering.
Result<StepMemory> step_memory(const Module& module);

}  // namespace reprise
