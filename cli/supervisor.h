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
/// the command 0.3 s; then, or when it ends, or when this process has
/// died of whatever, every process that it has left is killed. Where this one
/// died, `folder` is removed. Once there is a file `lost`, the command has
/// three seconds: a launcher waits without end for hosts that it cannot reach.
/// An mpirun that lives for five seconds without what it started has missed
/// its end (Open MPI 4.1 deadlocks where a rank is killed while it connects):
/// it is killed, and kLauncherStuck stands in `lost`.
/// Errors: as run_process.
Result<int> run_supervised(
    const std::vector<std::string>& arguments,
    const std::vector<std::pair<std::string, std::string>>& environment,
    const std::string& folder, const std::string& lost, int* received);

/// The supervisor: LIFELINE FOLDER LOST COMMAND... Returns the command's
/// status, or kExitEnvironment where it was killed for what was lost.
int supervise(int argc, char** argv);

}  // namespace reprise
