// What a trace shows instead of buckets: sharded gradients, a DDP that keeps
// parameters without a gradient in its buckets, all-reduces without a DDP,
// ranks of a pipeline, a program that XLA compiled.
#pragma once

#include "data/result.h"
#include "data/trace/trace.h"
#include "optimizer/ddp/ddp_recording.h"
#include "replay/collectives/collectives.h"

namespace reprise {

constexpr std::string_view kHowToRecord =
    "record rank by rank with torch.profiler.profile(record_shapes=True, "
    "schedule=...) and profiler.step() after each step, on all ranks";

/// Whether DDP looks for parameters without a gradient in each step: then it
/// keeps the buckets that it was constructed with.
bool finds_unused_parameters(const Trace& trace);

/// Why no step's all-reduces carry the recording's gradients, and what to do.
/// Requires: a step.
Error no_buckets(const Trace& trace, const CollectiveMatching& matching,
                 const DdpRecording& recording);

/// Why no step has the recording's gradients on all ranks, and what to do.
Error no_common_step(const Trace& trace, const CollectiveMatching& matching,
                     const DdpRecording& recording);

/// Of a trace of what XLA compiled, or another framework ran.
Error no_pytorch(const Trace& trace);

}  // namespace reprise
