// A small process between this one and a command that starts others: whatever
// happens to this one, the command's processes end and their folder goes.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "data/result.h"

namespace reprise {

/// The first word with which this executable is a supervisor.
inline constexpr const char* kSupervisorWord = "supervise-a-run";

/// As run_process, below a supervisor. SIGINT, SIGTERM, SIGHUP and SIGQUIT give
/// the command half a second; then, or when it ends, or when this process has
/// died of whatever, every process that it has left is killed. Where this one
/// died, `folder` is removed. Errors: as run_process.
Result<int> run_supervised(
    const std::vector<std::string>& arguments,
    const std::vector<std::pair<std::string, std::string>>& environment,
    const std::string& folder, int* received);

/// The supervisor: LIFELINE FOLDER COMMAND... Returns the command's status.
int supervise(int argc, char** argv);

}  // namespace reprise
