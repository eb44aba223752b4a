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

struct OpenedTrace {
  Trace trace;
  /// Of the trace's file, hexadecimal; empty where a program is embedded.
  std::string sha256;
};

/// Reads a trace; a folder of another tool's files (dPRO's) is imported first,
/// with its remarks on stderr. Errors: as read_trace and import_files.
Result<OpenedTrace> open_trace(const std::string& path);

/// Searches buckets, writes the plan and prints what is predicted
/// (reprise.optimize/1). Errors: as `ddp_recording`; kInvalid when the costs
/// hold no all-reduce among as many ranks.
Status optimize_imported(Trace trace, const ImportedSearch& options);

}  // namespace reprise
