// What a dPRO directory tells of a Horovod job, as a DdpRecording: its
// data-flow graph names the operators that make each tensor, its timelines the
// stages of each reduction.
//
// A gradient is what one recorded reduction carried: a tensor, or a group that
// Horovod reduced as one and that stays whole. It is ready when the last
// operator ends that its reduction depends on, and its transfer lasts from the
// last rank's first stage (negotiation) to the last rank's last stage (copy
// out of the fusion buffer).
#pragma once

#include "optimizer/ddp/ddp_recording.h"

namespace reprise {

/// Reads the recording; aligns the clocks of `trace` on the way.
/// Errors: kInvalid saying what the trace lacks: steps, reductions with sizes
/// that all ranks have.
Result<DdpRecording> horovod_recording(Trace& trace);

}  // namespace reprise
