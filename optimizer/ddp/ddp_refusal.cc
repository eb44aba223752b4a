#include "optimizer/ddp/ddp_refusal.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "data/integers.h"
#include "optimizer/ddp/ddp_rank.h"

namespace reprise {
namespace {

bool has_name(const Trace& trace, std::string_view name) {
  return std::find(trace.strings.begin(), trace.strings.end(), name) !=
         trace.strings.end();
}

int64_t gradient_bytes(const DdpRecording& recording) {
  int64_t bytes = 0;
  for (const DdpGradient& each : recording.gradients)
    bytes = saturating_add(bytes, each.bytes);
  return bytes;
}

/// Of the map of used parameters, an int each, that DDP all-reduces as well; 0
/// where none was recorded.
int64_t mapped_parameters(const Trace& trace, size_t gradients) {
  int64_t parameters = 0;
  for (const CollectiveInfo& each : trace.collectives) {
    if (each.kind == CollectiveKind::kAllReduce &&
        each.type == PrimitiveType::kS32 &&
        each.input_elements > static_cast<int64_t>(gradients))
      parameters = std::max(parameters, each.input_elements);
  }
  return parameters;
}

Error unused_parameters(const Trace& trace, const DdpRecording& recording) {
  const size_t gradients = recording.gradients.size();
  int64_t carried = 0;
  for (const DdpTransfer& each : recording.steps.front().transfers)
    carried = saturating_add(carried, each.bytes);
  const int64_t parameters = mapped_parameters(trace, gradients);
  const std::string with_gradient =
      parameters > 0
          ? fmt::format(" ({} of {} have one)", gradients, parameters)
          : "";
  return {ErrorKind::kUnsupported,
          fmt::format(
              "DDP(find_unused_parameters=True): a step's all-reduces carry {} "
              "bytes, its {} gradients {}, the rest are parameters without a "
              "gradient{} and the map of those. Such a DDP keeps the buckets "
              "that it was constructed with, whose order no trace tells: take "
              "these parameters out (requires_grad_(False) before DDP(...)), "
              "leave find_unused_parameters out, and record again",
              carried, gradients, gradient_bytes(recording), with_gradient)};
}

}  // namespace

bool finds_unused_parameters(const Trace& trace) {
  return has_name(trace,
                  "torch.distributed.ddp.reducer::search_unused_parameters");
}

Error no_buckets(const Trace& trace, const DdpRecording& recording,
                 int64_t reduce_scatters) {
  const bool none =
      std::all_of(recording.steps.begin(), recording.steps.end(),
                  [](const DdpStep& step) { return step.transfers.empty(); });
  if (none && reduce_scatters > 0) {
    return {ErrorKind::kUnsupported,
            fmt::format(
                "its gradients are reduce-scattered, {} times (FSDP, ZeRO): "
                "buckets are planned of gradients that are all-reduced (DDP)",
                reduce_scatters)};
  }
  if (!none && finds_unused_parameters(trace))
    return unused_parameters(trace, recording);
  if (!has_name(trace, kDdpForward) &&
      has_name(trace, "_c10d_functional::all_reduce")) {
    return {ErrorKind::kUnsupported,
            fmt::format("no DDP in the trace (no '{}'): its all-reduces are "
                        "'_c10d_functional::all_reduce', of tensor parallelism "
                        "or other DTensors, and carry none of its {} "
                        "gradients; buckets are planned of gradients that DDP "
                        "all-reduces",
                        kDdpForward, recording.gradients.size())};
  }
  return {
      ErrorKind::kInvalid,
      fmt::format(
          "no step's all-reduces add up to its {} gradients ({} bytes, in "
          "ready order): the buckets are compressed by a hook, or "
          "all-reduces or their sizes were not recorded; {}",
          recording.gradients.size(), gradient_bytes(recording), kHowToRecord)};
}

}  // namespace reprise
