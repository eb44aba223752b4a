#include "replay/clocks/aligned_trace.h"

namespace reprise {

AlignedTrace AlignedTrace::align(Trace trace) {
  AlignedTrace aligned(std::move(trace));
  if (!is_solo(aligned.trace_)) {
    aligned.clocks_ = align_clocks(aligned.trace_, aligned.matching_);
  }
  return aligned;
}

AlignedTrace AlignedTrace::as_recorded(Trace trace) {
  return AlignedTrace(std::move(trace));
}

bool is_solo(const Trace& trace) {
  const auto solo = trace.environment.find("solo");
  return solo != trace.environment.end() && solo->second == "1";
}

}  // namespace reprise
