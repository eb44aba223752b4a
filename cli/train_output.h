// What `reprise train` says of a run.
#pragma once

#include <string>

#include "cli/launcher.h"
#include "cli/output.h"

namespace reprise {

/// One row: the times of a step, losses, and what was verified. `result` is the
/// trainer's reprise.train/1.
void print_training(const std::string& result, const TrainRequest& request,
                    Format format);

}  // namespace reprise
