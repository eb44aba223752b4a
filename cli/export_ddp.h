// reprise export --as ddp: the buckets of a plan as arguments of PyTorch's
// DistributedDataParallel.
#pragma once

#include <string>

#include "data/result.h"

namespace reprise {

/// Reads the plan of an imported trace and writes into the directory `output`
/// (made when missing) `ddp_plan.json`, `reprise_ddp.py`, which applies it, and
/// `README.txt` with the lines to paste; or the JSON alone when `output` ends
/// in ".json" or is "-". Says on stderr what to do with it.
/// Errors: kInvalid when the plan has no buckets of gradients in ready order;
/// kIo; kInvalid when a file exists and `force` is not set.
Status export_ddp(const std::string& plan_path, const std::string& output,
                  bool force);

}  // namespace reprise
