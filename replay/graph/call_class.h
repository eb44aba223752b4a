// Calls of a device's runtime and driver, by their names.
#pragma once

#include <cstdint>
#include <vector>

#include "data/trace/trace.h"

namespace reprise {

/// What a host call does, by its name.
enum class CallClass : uint8_t {
  kPlain,
  kCopy,        ///< May block until its copy is done.
  kSyncDevice,  ///< Waits for all device work (cudaFree does, too).
  kSyncStream,  ///< Waits for a stream.
  kSyncEvent,   ///< Waits for a recorded event.
  kStreamWait,  ///< Lets a stream wait for a recorded event.
  kRecord,      ///< Records an event on a stream.
  kStepMark,    ///< The range of a step.
};

/// By StringId, for all names of a trace.
std::vector<CallClass> classify_calls(const Trace& trace);

}  // namespace reprise
