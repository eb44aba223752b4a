// The directory of one run of reprise-train below the one in which
// `reprise profile` gathers: each run has its own, so that a command may train
// several times.
#pragma once

#include <string>

#include "data/result.h"
#include "runtime/process/process_group.h"

namespace reprise {

/// Makes the directory of this run below `base`, under one name on all ranks,
/// also where these share no storage. It is "" when rank 0 has no `base` or
/// cannot write there. Collective. Errors: kDevice, of the group.
Result<std::string> make_run_directory(const std::string& base,
                                       ProcessGroup& group);

}  // namespace reprise
