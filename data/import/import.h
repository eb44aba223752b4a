// Files and directories of any format that a reader knows become one trace:
// found by content, read one thread a file, each input into a spool of its
// own, in an order that does not depend on the threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "data/file.h"
#include "data/formats/reader.h"
#include "data/result.h"
#include "data/trace/trace_spool.h"

namespace reprise {

struct ImportOptions {
  std::string kind;     ///< Reads every input as this; empty: by content.
  bool strict = false;  ///< Any loss is an error.
  int threads = 0;      ///< At most so many; 0: one a core.
  std::string spool_directory;  ///< For temporary segments; empty: system's.
  /// A file to leave alone when it is found in an imported directory.
  std::string output;
  /// Input -> its rank (of several ranks the first one's). An input is named
  /// by its path or the end of it, such as its file name.
  std::map<std::string, uint32_t> ranks;
  /// Who is asked, in this order.
  std::vector<const TraceReader*> readers = trace_readers();
  std::vector<const DirectoryReader*> directory_readers =
      reprise::directory_readers();
  /// Set from anywhere, it ends the import soon, as an error.
  const std::atomic<bool>* cancelled = nullptr;
};

/// How far the import is, in bytes of the files on disk.
struct ImportProgress {
  int64_t bytes_done = 0, bytes_total = 0;
  size_t files_done = 0, files_total = 0;
};
/// Called now and then, from one thread at a time but not always the same.
using ImportWatcher = std::function<void(const ImportProgress&)>;

/// What was read, before it is a trace.
struct ImportResult {
  std::vector<FileReport> files;   ///< One an input: a file or a member.
  std::vector<TraceSpool> spools;  ///< Of the inputs that gave something.
};

/// Reads all files and directories (recursively; archives are opened). Ranks
/// come from the files' own metadata, then from `options.ranks`, then from
/// file names ("rank-3", "worker3", a number that alone differs); a single
/// input without any is rank 0. Two inputs of one rank are joined when their
/// kinds complement each other.
/// Errors: kIo (a path that is not there); kUnsupported when nothing could be
/// read, or with `strict` when anything was lost; kInvalid (ranks unknown or
/// claimed twice, a kind that is not known).
Result<ImportResult> import_files(std::span<const std::string> paths,
                                  const ImportOptions& options,
                                  const ImportWatcher& watcher = {});

/// Writes the trace with its report embedded, and its losses as warnings.
/// Errors: as write_spools.
Status write_import(ImportResult& result, const std::string& path,
                    Existing existing = Existing::kReplace);

/// The words for `ImportOptions::kind`, in the order of the readers.
std::vector<std::string> import_kinds(const ImportOptions& options = {});

}  // namespace reprise
