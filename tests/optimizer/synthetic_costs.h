// Made-up prices for tests on the shipped programs: a roofline and one link.
#pragma once

#include "costmodel/cost_model.h"

namespace reprise {

/// 150 GFLOP/s, 8 GB/s, a link of 0.12 GB/s with 200 us latency.
inline CostModel synthetic_costs() {
  CostModel costs;
  costs.flops_per_s = 150e9;
  costs.bytes_per_s = 8e9;
  costs.unit_overhead_ns = 500;
  costs.dispatch_ns = 200;
  CollectivePrice link;
  link.latency_ns = 200e3;
  link.bandwidth_bytes_per_s = 0.12e9;
  costs.collectives["all-reduce/f32/2"] = link;
  return costs;
}

/// The same with everything else that replay knows: slow-down while overlapped,
/// a token-shaped link, wake-ups, feeding and overheads.
inline CostModel busy_costs() {
  CostModel costs = synthetic_costs();
  costs.contention = {.library = 1.2, .kernel = 1.4, .collective = 1.3};
  costs.feed_ns = 100e3;
  costs.compute_wake_ns = 20e3;
  costs.communication_wake_ns = 30e3;
  costs.unexplained_ns = 400e3;
  costs.step_overhead_ns = 50e3;
  CollectivePrice& link = costs.collectives.begin()->second;
  link.burst_bytes = 262144;
  link.peak_bandwidth_bytes_per_s = 1e9;
  return costs;
}

}  // namespace reprise
