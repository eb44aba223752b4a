// What large buckets cost beyond the trace's own collectives: without fusion a
// step moves gradients one by one, each still in the caches that it was written
// to, and a bucket of them all moves at the speed of memory. On a loopback link
// 25 MB in one bucket took 27 ms where 126 gradients took 19 ms together (our
// measurement). A run with a few buckets of growing sizes tells.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "costmodel/calibration.h"
#include "costmodel/cost_model.h"
#include "data/plan/plan.h"
#include "data/result.h"
#include "data/schedule/schedule.h"
#include "data/trace/trace.h"

namespace reprise {

/// Context of measured sizes: `key` is "size/all-reduce/f32/2/BYTES" (a
/// collective_key and a size), `median_ns` how many millionths of the price
/// that the recorded run alone gives it takes.
inline constexpr const char* kSizeContext = "alone, of its size";

/// Buckets of growing sizes over the collectives of a schedule that can be
/// joined and wait for equally many others: of each kind, type and groups, of
/// those that move most. The last has half of the bytes, so that the others
/// find compute to run beside. None when the schedule has buckets, or too few
/// collectives.
std::vector<Bucket> probing_buckets(const Schedule& schedule);

/// Names of the units in an order that runs collectives beside little compute:
/// compute that waits for no collective, then the collectives that do not, then
/// compute that waits for one, and so on.
std::vector<std::string> apart_order(const Schedule& schedule);

/// Whether transfers of a run got burst credit (see CollectivePrice). Requires:
/// clocks aligned. Errors: as fit_costs.
Result<bool> has_burst_credit(const RecordedRun& recorded);

/// Prices the buckets of `probed` against the collectives of `recorded`, alone:
/// what stood beside compute was `slowdown` times as long. Requires: clocks
/// aligned. Errors: as fit_costs.
Result<std::vector<Measurement>> size_measurements(const RecordedRun& recorded,
                                                   const RecordedRun& probed,
                                                   double slowdown);

/// Adds the measured sizes of one collective_key beyond the points of `price`;
/// still larger ones cost as much more as the largest measured one did.
/// A link with burst credit keeps its formula: a size alone met the credit of
/// an idle link, which comes on top of the price.
void add_measured_sizes(std::span<const Measurement> measurements,
                        const std::string& key, CollectivePrice& price);

}  // namespace reprise
