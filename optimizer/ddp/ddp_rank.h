// What one rank recorded of PyTorch's backward pass: its steps, when each of
// their gradients was accumulated, and when its device was done with it. Times
// are of the rank's own clock.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/trace/trace.h"
#include "optimizer/ddp/ddp_recording.h"
#include "replay/analysis/device_work.h"

namespace reprise {

/// The operator that adds a gradient to its parameter's.
constexpr std::string_view kAccumulateGrad = "torch::autograd::AccumulateGrad";

/// The range that DistributedDataParallel sets around its module's forward.
constexpr std::string_view kDdpForward = "DistributedDataParallel.forward";

/// One kAccumulateGrad.
struct DdpAccumulation {
  uint32_t event = 0;
  int64_t end_ns = 0;
};

/// One step of one rank.
struct DdpRankStep {
  int64_t start_ns = 0, end_ns = 0;  ///< The host's marks.
  /// Where the step's time counts from and to: the marks, or the device's first
  /// work of this step and of the next.
  int64_t work_start_ns = 0, work_end_ns = 0;
  std::vector<DdpAccumulation> accumulations;  ///< By end.
  std::vector<int64_t> forwards_ns;  ///< Starts of kDdpForward, ascending.
};

struct DdpRank {
  RankInfo info;
  RankWork work;
  std::map<int32_t, DdpRankStep> steps;  ///< By number; warm-up left out.
  /// Launch and end of what the streams of backward did but communication, by
  /// launch; the latest end so far.
  std::vector<std::pair<int64_t, int64_t>> done_by_launch;

  /// When what was launched until `time_ns` was done on the streams of
  /// backward.
  int64_t ready_ns(int64_t time_ns) const;
};

/// "512x320" of the dimensions [512, 320], "scalar" of none; "" of what is no
/// list of numbers.
std::string shape_text(const nlohmann::json& dimensions);

DdpRank read_ddp_rank(const Trace& trace, const RankInfo& info);

/// Type, shape and size of the gradient that an AccumulateGrad adds, without a
/// name; bytes 0 when the operator's dimensions were not recorded.
/// Requires: an event with attributes.
DdpGradient ddp_gradient_of(const Trace& trace, const Event& event);

}  // namespace reprise
