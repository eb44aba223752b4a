// Traces as verbs are given them: our file, or what another tool left.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "cli/process.h"
#include "cli/progress_line.h"
#include "data/import/import.h"
#include "data/result.h"
#include "data/trace/trace.h"
#include "replay/clocks/aligned_trace.h"

namespace reprise {

/// A file of ours: the trace that a path names, or what importing the path (a
/// file or folder of another tool) left in a private folder, which lasts as
/// long as this; signals to end wait until it is gone.
class TraceFile {
 public:
  /// By content; what is named `.trace` is taken for ours. An import's remarks
  /// go to stderr. Errors: as import_files.
  static Result<TraceFile> open(const std::string& path);
  const std::string& path() const { return path_; }

 private:
  explicit TraceFile(std::string path) : path_(std::move(path)) {}

  std::string path_;
  std::unique_ptr<HeldSignals> signals_;  ///< Let go after `scratch_`.
  std::optional<TemporaryDirectory> scratch_;
};

struct OpenedTrace {
  Trace trace;
  /// Of the trace's file, hexadecimal; empty where a program is embedded.
  std::string sha256;
};

/// Whether a path is a plan; all else is a trace of some kind. Errors: as
/// opening it.
Result<bool> is_plan_file(const std::string& path);

/// Reads a trace of any kind. Errors: as read_trace and import_files.
Result<OpenedTrace> open_trace(const std::string& path);

/// read_trace and AlignedTrace::read of a trace of any kind, shown while they
/// last. Errors: as these and TraceFile::open.
Result<Trace> read_trace_shown(const std::string& path);
Result<AlignedTrace> read_aligned_shown(
    const std::string& path, size_t most_events = TraceByRank::kMostEvents);

/// Shows an import on `line`, which outlives it.
ImportWatcher import_watcher(ProgressLine& line);

}  // namespace reprise
