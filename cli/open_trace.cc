#include "cli/open_trace.h"

#include <fmt/format.h>

#include <filesystem>
#include <optional>

#include "cli/output.h"
#include "cli/process.h"
#include "data/file.h"
#include "data/import/import.h"
#include "data/import/import_report.h"
#include "data/sha256.h"
#include "data/trace/trace_reader.h"

namespace reprise {
namespace {

/// Writes what the files hold as a trace.
Status import_path(const std::string& path, const std::string& trace_path,
                   std::string_view verb) {
  ProgressLine line;
  Result<ImportResult> imported =
      import_files({&path, 1}, {}, import_watcher(line));
  line.erase();
  if (!imported) return pass(imported.error());
  constexpr size_t kMostRemarks = 8;
  for (const std::string& remark :
       import_remarks(imported->files, kMostRemarks))
    tell("reprise {}: {}\n", verb, remark);
  return write_import(*imported, trace_path);
}

}  // namespace

Result<OpenedTrace> open_trace(const std::string& path) {
  std::string file = path;
  std::optional<TemporaryDirectory> scratch;
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    Result<TemporaryDirectory> created = TemporaryDirectory::create();
    if (!created) return pass(created.error());
    scratch.emplace(*std::move(created));
    file = scratch->path() + "/imported.trace";
    if (Status done = import_path(path, file, "optimize"); !done)
      return pass(done.error());
  }
  Result<Trace> trace = read_trace_shown(file);
  if (!trace) return pass(trace.error());
  OpenedTrace opened{.trace = *std::move(trace), .sha256 = {}};
  if (!opened.trace.program_text.empty()) return opened;
  const Result<MappedFile> mapped = MappedFile::open(file);
  if (!mapped) return pass(mapped.error());
  opened.sha256 = sha256_hex(mapped->bytes());
  return opened;
}

Result<Trace> read_any_trace(const std::string& path, std::string_view verb) {
  std::error_code error;
  const bool folder = std::filesystem::is_directory(path, error);
  if (!folder) {
    Result<Trace> ours = read_trace_shown(path);
    const bool foreign =
        !ours && (ours.error().kind == ErrorKind::kParse ||
                  ours.error().kind == ErrorKind::kUnsupported);
    if (!foreign || path.ends_with(".trace")) return ours;
  }
  const Result<TemporaryDirectory> scratch = TemporaryDirectory::create();
  if (!scratch) return pass(scratch.error());
  const std::string file = scratch->path() + "/imported.trace";
  if (Status done = import_path(path, file, verb); !done)
    return pass(done.error());
  return read_trace_shown(file);
}

Result<Trace> read_trace_shown(const std::string& path) {
  ProgressLine line;
  return read_trace(path, EventSink{.watch = line.watcher()});
}

Result<AlignedTrace> read_aligned_shown(const std::string& path,
                                        size_t most_events) {
  ProgressLine line;
  return AlignedTrace::read(path, most_events, line.watcher());
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
