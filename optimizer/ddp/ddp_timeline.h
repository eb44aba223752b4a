// The timeline of a data-parallel step under any buckets.
//
// Model. One rank stands for all: a gradient is ready when the last rank has
// it. Buckets are sent in order, each when its last gradient is ready, by up to
// `workers` collectives at a time. A transfer first passes its latency, then
// sends its bytes over a wire that those in flight share evenly. While any is
// in flight compute is slower by one factor; while compute runs transfers are
// slower by another. The step ends `tail_ns` after both are done.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "costmodel/cost_model.h"

namespace reprise {

struct DdpGradient {
  std::string name;   ///< "gradient.0", in ready order.
  std::string type;   ///< As recorded: "float".
  std::string shape;  ///< "512x320".
  int64_t bytes = 0;
  bool operator==(const DdpGradient&) const = default;
};

struct DdpBucket {
  std::vector<uint32_t> gradients;  ///< Ascending.
  bool operator==(const DdpBucket&) const = default;
};

struct DdpModel {
  std::vector<DdpGradient> gradients;  ///< In ready order.
  /// [gradient] from the step's start, without communication beside it;
  /// ascending.
  std::vector<double> ready_ns;
  double tail_ns = 0;
  CollectivePrice price;
  double compute_slowdown = 1, collective_slowdown = 1;
  int workers = 1;
};

struct DdpTimeline {
  double step_ns = 0;
  double backward_end_ns = 0;
  std::vector<double> ready_ns;             ///< [gradient]
  std::vector<double> sent_ns, arrived_ns;  ///< [bucket]
};

/// Cost: O(gradients + buckets x workers).
DdpTimeline simulate_buckets(const DdpModel& model,
                             const std::vector<DdpBucket>& buckets);

/// PyTorch's rule (pytorch_buckets), a key for each type. Requires: caps not
/// empty.
std::vector<DdpBucket> ddp_buckets(const std::vector<DdpGradient>& gradients,
                                   const std::vector<int64_t>& caps_bytes);

/// The caps under which `ddp_buckets` makes these buckets of one type.
std::vector<int64_t> caps_of(const std::vector<DdpGradient>& gradients,
                             const std::vector<DdpBucket>& buckets);

}  // namespace reprise
