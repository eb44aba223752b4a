// What each instruction of a recorded XLA program costs on the device, as XLA's
// own scheduler is told of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "replay/clocks/aligned_trace.h"

namespace reprise {

/// An instruction of a compiled module, as the trace names both.
struct InstructionEstimate {
  std::string module, name;
  /// Of one execution: of a collective the median transfer, waits taken out;
  /// else the time of its kernels, the median over ranks.
  int64_t device_ns = 0;
  int64_t executions = 0;  ///< Of the rank with most.
  bool collective = false;
};

/// By module and name; empty where device work names no instructions. Cost:
/// linear in the events, and as estimate_collectives.
std::vector<InstructionEstimate> estimate_instructions(
    const AlignedTrace& trace);

}  // namespace reprise
