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

/// By the all-reduces of its first step.
int64_t carried_bytes(const DdpRecording& recording) {
  int64_t bytes = 0;
  for (const DdpTransfer& each : recording.steps.front().transfers)
    bytes = saturating_add(bytes, each.bytes);
  return bytes;
}

std::ptrdiff_t count_of(CollectiveKind kind,
                        const CollectiveMatching& matching) {
  return std::count_if(
      matching.collectives.begin(), matching.collectives.end(),
      [&](const MatchedCollective& each) { return each.kind == kind; });
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
  const int64_t carried = carried_bytes(recording);
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

/// Of all-reduces that no DDP made.
Error by_hand(const DdpRecording& recording) {
  return {ErrorKind::kUnsupported,
          fmt::format(
              "no DDP in the trace (no '{}'): a step's {} all-reduces carry {} "
              "bytes, its {} gradients {}, and are not made by DDP's buckets. "
              "Where the program all-reduces gradients itself, wrap the model "
              "in DistributedDataParallel, which does that beside backward, "
              "and record that run: its buckets can be planned",
              kDdpForward, recording.steps.front().transfers.size(),
              carried_bytes(recording), recording.gradients.size(),
              gradient_bytes(recording))};
}

}  // namespace

bool finds_unused_parameters(const Trace& trace) {
  return has_name(trace,
                  "torch.distributed.ddp.reducer::search_unused_parameters");
}

Error no_buckets(const Trace& trace, const CollectiveMatching& matching,
                 const DdpRecording& recording) {
  const bool none =
      std::all_of(recording.steps.begin(), recording.steps.end(),
                  [](const DdpStep& step) { return step.transfers.empty(); });
  const bool ddp = has_name(trace, kDdpForward);
  const auto reduce_scatters =
      count_of(CollectiveKind::kReduceScatter, matching);
  if (reduce_scatters > 0 && (none || !ddp)) {
    return {
        ErrorKind::kUnsupported,
        fmt::format(
            "its gradients are reduce-scattered, {} times (FSDP, ZeRO{}): "
            "buckets are planned of gradients that are all-reduced (DDP); "
            "groups for FSDP2 come of a recording of the same model under DDP, "
            "by `reprise export --as fsdp2` of its plan",
            reduce_scatters,
            none ? "" : "), and their shards all-reduced (hybrid sharding")};
  }
  if (!none && finds_unused_parameters(trace))
    return unused_parameters(trace, recording);
  if (!ddp && has_name(trace, "_c10d_functional::all_reduce")) {
    return {ErrorKind::kUnsupported,
            fmt::format("no DDP in the trace (no '{}'): its all-reduces are "
                        "'_c10d_functional::all_reduce', of tensor parallelism "
                        "or other DTensors, and carry none of its {} "
                        "gradients; buckets are planned of gradients that DDP "
                        "all-reduces",
                        kDdpForward, recording.gradients.size())};
  }
  if (!ddp && carried_bytes(recording) > 0) return by_hand(recording);
  return {
      ErrorKind::kInvalid,
      fmt::format(
          "no step's all-reduces add up to its {} gradients ({} bytes, in "
          "ready order): the buckets are compressed by a hook, or "
          "all-reduces or their sizes were not recorded; {}",
          recording.gradients.size(), gradient_bytes(recording), kHowToRecord)};
}

Error no_common_step(const Trace& trace, const CollectiveMatching& matching,
                     const DdpRecording& recording) {
  const auto sends = count_of(CollectiveKind::kSend, matching);
  if (sends > 0 && trace.ranks.size() > 1) {
    return {
        ErrorKind::kUnsupported,
        fmt::format(
            "its ranks make different gradients and send to each other, {} "
            "times, as the stages of a pipeline do: buckets are planned of "
            "gradients that all ranks make and DDP all-reduces; {}",
            sends,
            has_name(trace, kDdpForward)
                ? "give the files of one stage's ranks alone"
                : fmt::format("there is no DDP in it (no '{}')", kDdpForward))};
  }
  return {
      ErrorKind::kInvalid,
      fmt::format("no step in which every rank makes the same {} gradients; {}",
                  recording.gradients.size(), kHowToRecord)};
}

Error no_pytorch(const Trace& trace) {
  if (trace.modules.empty()) {
    return {ErrorKind::kUnsupported,
            fmt::format("nothing in the trace bears a name of PyTorch's: "
                        "buckets are planned of its DDP ({}), of Horovod as "
                        "dPRO records it, and of `reprise train`",
                        kHowToRecord)};
  }
  return {ErrorKind::kUnsupported,
          fmt::format(
              "XLA compiled what was recorded ({} HLO modules), and combines "
              "its collectives itself: buckets are planned of a recording of "
              "PyTorch's DDP or Horovod, or of what `reprise train` ran",
              trace.modules.size())};
}

}  // namespace reprise
