// `reprise.train/1`, the JSON that a run ends with.
#pragma once

#include <string>

#include "runtime/train/train.h"

namespace reprise {

/// What was run, as its caller names it.
struct TrainSubject {
  std::string program;      ///< Path.
  std::string fingerprint;  ///< Of the program.
  std::string device = "cpu";
  std::string plan;  ///< Path, or "identity".
};

/// Keys in a fixed order; `step_time_ns` over the timed steps: median, min,
/// p90 (nearest rank) and all of them.
std::string print_train_result(const TrainResult& result,
                               const TrainSubject& subject);

}  // namespace reprise
