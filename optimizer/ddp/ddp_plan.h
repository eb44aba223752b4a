// The best buckets for a recorded data-parallel job: the exact dynamic program
// of bucket_program.h over the gradients' ready order, solved again on the
// timeline that its answer gives, beside PyTorch's rule under single caps.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/progress.h"
#include "optimizer/ddp/ddp_timeline.h"

namespace reprise {

/// One setting of DistributedDataParallel and its predicted step.
struct DdpSetting {
  std::string name;                 ///< "plan", "ddp", "none", "4 MiB".
  std::vector<int64_t> caps_bytes;  ///< As for `ddp_buckets`.
  std::vector<DdpBucket> buckets;
  double step_ns = 0;
  double other_step_ns = 0;  ///< At the prices' other end; else step_ns.
  double most_ns() const { return std::max(step_ns, other_step_ns); }
  double least_ns() const { return std::min(step_ns, other_step_ns); }
};

struct DdpSearch {
  /// Never slower than any other, as predicted; or the recorded one.
  DdpSetting plan;
  /// Of what `plan` is the recorded one instead of, being no claim.
  std::optional<DdpSetting> unclaimed = {};
  DdpSetting single_cap;  ///< The best of one cap for all buckets.
  /// Fixed ones, by falling number of buckets: "none" (one per gradient),
  /// single caps, "ddp" (1 MiB, then 25 MiB), "one bucket".
  std::vector<DdpSetting> baselines;
  /// No buckets are faster, in this model.
  double lower_bound_ns = 0;
  int64_t evaluations = 0;
};

constexpr int64_t kMebibyte = int64_t{1} << 20;

/// Prices one setting.
DdpSetting price_setting(const DdpModel& model, std::string name,
                         std::vector<int64_t> caps_bytes);

/// Where prices are known between two ends only: the setting that gains most
/// over `recorded` at the end where it gains less, `recorded` itself if none
/// gains at both. The bound holds at both. The models differ in their price
/// alone.
DdpSearch search_buckets_between(const DdpModel& one, const DdpModel& other,
                                 const std::vector<DdpBucket>& recorded,
                                 const ProgressWatcher& watch = {});

/// Adds `recorded` to the baselines, and makes it the plan where what was found
/// is not predicted, at both ends of the prices, to be clearly faster than that
/// is predicted to be and than its steps took, `took_ns` (0: not known): of a
/// job on Gloo a plan that was to take 0.3 % less than the recorded steps took
/// 16 to 26 % more (PyTorch 2.15, two ranks, three runs).
void keep_recorded(const DdpModel& one, const DdpModel& other,
                   const std::vector<DdpBucket>& recorded, int64_t took_ns,
                   DdpSearch& search);

/// Deterministic. Requires: at least one gradient.
/// Cost: that of a few dynamic programs and a hundred simulations.
DdpSearch search_buckets(const DdpModel& model,
                         const ProgressWatcher& watch = {});

}  // namespace reprise
