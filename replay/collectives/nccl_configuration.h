// By which algorithm, protocol and number of channels NCCL ran a collective:
// kernels' names say it, and NCCL's profiler plugin.
#pragma once

#include <compare>
#include <string>
#include <string_view>
#include <vector>

#include "data/result.h"
#include "data/trace/trace_by_rank.h"
#include "replay/collectives/collectives.h"

namespace reprise {

struct NcclConfiguration {
  /// As files of NCCL's tuner plugin spell them: "ring", "nvls_tree"; "ll",
  /// "ll128", "simple". "" unknown. Source: NVIDIA/nccl,
  /// plugins/tuner/example/plugin.c.
  std::string algorithm = {}, protocol = {};
  int channels = -1;  ///< -1: unknown.

  auto operator<=>(const NcclConfiguration&) const = default;
  bool known() const { return !algorithm.empty() && !protocol.empty(); }
  std::string text() const;  ///< "ring/ll128", "ring/ll128 on 8 channels".
};

/// Of a kernel's name: "ncclDevKernel_AllReduce_Sum_f32_RING_LL(…)".
NcclConfiguration nccl_configuration_of(std::string_view kernel);

/// Of "ring/ll128" or "ring/ll128/8", in the words of NCCL_ALGO too. Errors:
/// kInvalid with the words that are understood.
Result<NcclConfiguration> parse_nccl_configuration(std::string_view text);

/// [place in the matching] Of the first member that has one. Cost: that of
/// asking for the events of all ranks that communicate.
std::vector<NcclConfiguration> nccl_configurations(
    const TraceByRank& trace, const CollectiveMatching& matching);

}  // namespace reprise
