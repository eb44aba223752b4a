#include "cli/open_trace.h"

#include <fmt/format.h>

#include <filesystem>

#include "cli/output.h"
#include "data/file.h"
#include "data/import/import.h"
#include "data/import/import_report.h"
#include "data/plan/plan.h"
#include "data/sha256.h"
#include "data/trace/trace_database.h"
#include "data/trace/trace_reader.h"

namespace reprise {
namespace {

/// Whether the readers of other tools' files are asked at all: what cannot be
/// opened is for the reader of ours to say.
bool may_be_foreign(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return true;
  if (path.ends_with(".trace")) return false;
  const Result<MappedFile> file = MappedFile::open(path);
  return file && !begins_as_trace(file->bytes()) &&
         !begins_as_plan(file->bytes());
}

/// What the path holds; its remarks on stderr.
Result<ImportResult> import_path(const std::string& path) {
  ProgressLine line;
  Result<ImportResult> imported =
      import_files({&path, 1}, {}, import_watcher(line));
  line.erase();
  if (!imported) return pass(imported.error());
  constexpr size_t kMostRemarks = 8;
  for (const std::string& remark :
       import_remarks(imported->files, kMostRemarks))
    tell("reprise import: {}\n", remark);
  for (FileReport& file : imported->files) {
    file.dropped.clear();  // Told: no warnings of the trace.
    file.doubts.clear();
  }
  return imported;
}

}  // namespace

Result<TraceFile> TraceFile::open(const std::string& path) {
  TraceFile file(path);
  if (!may_be_foreign(path)) return file;
  Result<ImportResult> imported = import_path(path);
  if (!imported) return pass(imported.error());
  file.signals_ = std::make_unique<HeldSignals>();
  Result<TemporaryDirectory> scratch = TemporaryDirectory::create();
  if (!scratch) return pass(scratch.error());
  file.path_ = scratch->path() + "/imported.trace";
  file.scratch_.emplace(*std::move(scratch));
  const Status written = write_import(*imported, file.path_);
  if (!written) return pass(written.error());
  return file;
}

Result<OpenedTrace> open_trace(const std::string& path) {
  const Result<TraceFile> file = TraceFile::open(path);
  if (!file) return pass(file.error());
  Result<Trace> trace = read_trace_shown(file->path());
  if (!trace) return pass(trace.error());
  OpenedTrace opened{.trace = *std::move(trace), .sha256 = {}};
  if (!opened.trace.program_text.empty()) return opened;
  const Result<MappedFile> mapped = MappedFile::open(file->path());
  if (!mapped) return pass(mapped.error());
  opened.sha256 = sha256_hex(mapped->bytes());
  return opened;
}

Result<Trace> read_trace_shown(const std::string& path) {
  const Result<TraceFile> file = TraceFile::open(path);
  if (!file) return pass(file.error());
  ProgressLine line;
  return read_trace(file->path(), EventSink{.watch = line.watcher()});
}

Result<AlignedTrace> read_aligned_shown(const std::string& path,
                                        size_t most_events) {
  const Result<TraceFile> file = TraceFile::open(path);
  if (!file) return pass(file.error());
  ProgressLine line;
  return AlignedTrace::read(file->path(), most_events, line.watcher());
}

Result<bool> is_plan_file(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return false;
  const Result<MappedFile> file = MappedFile::open(path);
  if (!file) return pass(file.error());
  return begins_as_plan(file->bytes());
}

ImportWatcher import_watcher(ProgressLine& line) {
  return [watch = line.watcher()](const ImportProgress& progress) {
    if (!watch) return;
    const auto done = static_cast<double>(progress.bytes_done);
    const auto total = static_cast<double>(progress.bytes_total);
    watch({.what = fmt::format("reading {} files", progress.files_total),
           .share = total > 0 ? done / total : -1,
           .count = done,
           .unit = "B"});
  };
}

}  // namespace reprise
