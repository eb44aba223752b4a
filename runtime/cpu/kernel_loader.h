// Generated code for every kernel of a schedule, on every rank.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/progress.h"
#include "data/result.h"
#include "data/schedule/schedule.h"
#include "runtime/cpu/executor.h"
#include "runtime/process/process_group.h"

namespace reprise {

/// Code and what keeps it loaded.
struct LoadedKernels {
  std::vector<KernelCode> code;  ///< In order of Schedule::kernels.
  std::shared_ptr<const void> libraries;
  std::string note;  ///< Why kernels are interpreted though nobody asked.
};

struct KernelOptions {
  bool interpret = false;
  std::string cache_directory;  ///< Empty: the user's.
  ProgressWatcher watch = {};   ///< Told how much is compiled.
};

/// Compiles on the first rank of each host, then loads from the cache on the
/// others; interprets where asked, or where no compiler is found. Collective.
/// Errors: kDevice when the cache cannot be written or code cannot be loaded.
Result<LoadedKernels> load_kernels(const Schedule& schedule,
                                   const KernelOptions& options,
                                   ProcessGroup& group);

}  // namespace reprise
