// What a trace shows instead of buckets: sharded gradients, a DDP that keeps
// parameters without a gradient in its buckets, all-reduces without a DDP.
#pragma once

#include "data/result.h"
#include "data/trace/trace.h"
#include "optimizer/ddp/ddp_recording.h"

namespace reprise {

constexpr std::string_view kHowToRecord =
    "record rank by rank with torch.profiler.profile(record_shapes=True, "
    "schedule=...) and profiler.step() after each step, on all ranks";

/// Whether DDP looks for parameters without a gradient in each step: then it
/// keeps the buckets that it was constructed with.
bool finds_unused_parameters(const Trace& trace);

/// Why no step's all-reduces carry the recording's gradients, and what to do.
/// `reduce_scatters`: how many of those the trace has.
Error no_buckets(const Trace& trace, const DdpRecording& recording,
                 int64_t reduce_scatters);

}  // namespace reprise
