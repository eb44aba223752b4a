// reprise optimize for a trace without a program: the buckets of a recorded
// DistributedDataParallel job, or of a Horovod job recorded by dPRO.
#pragma once

#include <string>

#include "cli/output.h"
#include "data/plan/plan.h"
#include "data/trace/trace.h"

namespace reprise {

struct ImportedSearch {
  std::string trace_path, plan_path;
  std::string trace_sha256;
  /// A trace imported from nccl-tests' tables, whose times of all-reduces
  /// replace the trace's own; may be empty.
  std::string costs_path;
  Existing existing = Existing::kKeep;  ///< At `plan_path`.
  bool explain = false;
  Format format = Format::kTable;
};

/// Searches buckets, writes the plan and prints what is predicted
/// (reprise.optimize/1). Errors: as `ddp_recording`; kInvalid when the costs
/// hold no all-reduce among as many ranks.
Status optimize_imported(Trace trace, const ImportedSearch& options);

}  // namespace reprise
