// Fits the price of collectives and their slow-down beside compute from
// recorded transfers.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "costmodel/cost_model.h"
#include "costmodel/recorded_steps.h"

namespace reprise {

/// One transfer as recorded; those of one step stand together, in time order.
struct TransferSample {
  int32_t step = 0;
  double bytes = 0;
  double duration_ns = 0;  ///< Last arrival to mean end.
  double beside = 0;       ///< Share of it while a rank computed, 0 to 1.
  double idle_ns = 0;      ///< Since the end of the transfer before it.
  double typical_ns = 0;   ///< Median of its size; found by fit_collective.
};

/// Sizes within this factor of each other count as one.
constexpr double kSameSize = 1.1;

using TransfersByKey = std::map<std::string, std::vector<TransferSample>>;

/// The transfers of recorded steps, by collective_key.
TransfersByKey collect_transfers(const std::vector<RecordedStep>& steps,
                                 const Schedule& recorded);
/// What takes a collective's place where a rank, of several, is alone in its
/// group: it copies, which tells nothing of links.
TransfersByKey collect_copies(const std::vector<RecordedStep>& steps,
                              const Schedule& recorded);

struct CollectiveFit {
  CollectivePrice price;
  double slowdown = 1;
  bool slowdown_fitted = false;  ///< Else it is the one that was given.
};

/// Bytes over time of all samples, latency included.
double mean_bandwidth(const std::vector<TransferSample>& samples);

/// Fits latency, bandwidth, burst credit and slow-down together, by relative
/// error weighted by the typical time of a size, so that totals come out right;
/// then adds a point for each recorded size, drawn towards the formula when it
/// has few samples. A burst or a slow-down is kept only where it explains
/// clearly more. `known_slowdown` is used when the samples cannot tell: all of
/// them, or none, had compute beside them; or always, if it `is_measured`, from
/// a run that can. Requires: at least one sample, durations > 0.
CollectiveFit fit_collective(std::vector<TransferSample> samples,
                             double known_slowdown = 1,
                             bool is_measured = false);

}  // namespace reprise
