// Traces as verbs are given them: our file, or what another tool left.
#pragma once

#include <string>
#include <string_view>

#include "cli/progress_line.h"
#include "data/import/import.h"
#include "data/result.h"
#include "data/trace/trace.h"
#include "replay/clocks/aligned_trace.h"

namespace reprise {

struct OpenedTrace {
  Trace trace;
  /// Of the trace's file, hexadecimal; empty where a program is embedded.
  std::string sha256;
};

/// Reads a trace; a folder of another tool's files (dPRO's) is imported first,
/// with its remarks on stderr. Errors: as read_trace and import_files.
Result<OpenedTrace> open_trace(const std::string& path);

/// A trace of any kind that can be imported, whatever its file is; remarks on
/// stderr are `verb`'s. Errors: as read_trace of our own, else as import_files.
Result<Trace> read_any_trace(const std::string& path, std::string_view verb);

/// read_trace and AlignedTrace::read, shown while they last.
Result<Trace> read_trace_shown(const std::string& path);
Result<AlignedTrace> read_aligned_shown(
    const std::string& path, size_t most_events = TraceByRank::kMostEvents);

/// Shows an import on `line`, which outlives it.
ImportWatcher import_watcher(ProgressLine& line);

}  // namespace reprise
