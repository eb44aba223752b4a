// The buckets of a plan as sizes, which is how PyTorch's
// DistributedDataParallel is told of them (`bucket_cap_mb_list`,
// `bucket_cap_mb`) and how it names the buckets that it made.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/plan/plan.h"
#include "data/result.h"

namespace reprise {

struct DdpArguments {
  /// Of the planned buckets: a cap for each makes exactly these.
  std::vector<int64_t> bucket_bytes;
  /// Of the buckets that PyTorch makes under the plan's single cap.
  std::vector<int64_t> single_cap_bucket_bytes;
};

/// Requires: `plan.trace`, with a single cap > 0. Errors: kInvalid, naming
/// `path`, where PyTorch cannot make the plan's buckets: it fills each with the
/// next gradients of one type in ready order, and leaves none out.
Result<DdpArguments> ddp_arguments(const Plan& plan, const std::string& path);

}  // namespace reprise
