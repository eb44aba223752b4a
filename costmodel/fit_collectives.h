// Fits the price of collectives and their slow-down beside compute from
// recorded transfers.
#pragma once

#include <cstdint>
#include <vector>

#include "costmodel/cost_model.h"

namespace reprise {

/// One transfer as recorded; those of one step stand together, in time order.
struct TransferSample {
  int32_t step = 0;
  double bytes = 0;
  double duration_ns = 0;  ///< Last arrival to last end.
  double beside = 0;       ///< Share of it while a rank computed, 0 to 1.
  double idle_ns = 0;      ///< Since the end of the transfer before it.
};

struct CollectiveFit {
  CollectivePrice price;
  double slowdown = 1;
};

/// Fits latency, bandwidth, burst credit and slow-down together, by relative
/// error weighted by time, so that totals come out right; then adds a point for
/// each recorded size, drawn towards the formula when it has few samples. A
/// burst or a slow-down is kept only where it explains clearly more.
/// Requires: at least one sample, durations > 0.
CollectiveFit fit_collective(const std::vector<TransferSample>& samples);

}  // namespace reprise
