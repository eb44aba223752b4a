// The seam between the formats of the field and the trace store: one reader a
// format, found by content. A reader turns one input into events of a spool and
// counts what it had to drop; dirty data is never fatal to the rest.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/io/byte_source.h"
#include "data/result.h"
#include "data/trace/trace_spool.h"

namespace reprise {

/// What was read of one input: an entry of reprise.import/1.
struct FileReport {
  std::string path;
  std::string kind;     ///< "kineto", "nsys-sqlite", "xplane", "chakra", …
  std::string dialect;  ///< "2024-05+ cuda", "schema 3.24.14", …
  int64_t bytes = 0;    ///< Decompressed.
  int64_t events = 0;   ///< Added to the trace.
  int64_t kernels = 0, collectives = 0, steps = 0;
  /// What -> how many records tell nothing that a trace keeps ("flow arrow",
  /// "metadata row"). events + ignored + dropped are all records of the file.
  std::map<std::string, int64_t> ignored;
  /// Reason -> how many records were lost ("truncated", "end before start").
  std::map<std::string, int64_t> dropped;
  /// Reason -> how many were repaired ("unescaped quote").
  std::map<std::string, int64_t> repaired;
  /// What the file does not hold and what that costs, in whole sentences.
  std::vector<std::string> missing;
  /// What makes any figure of the trace doubtful, in whole sentences.
  std::vector<std::string> doubts = {};
  /// Not empty: nothing was read, and why, politely, with what to do.
  std::string refused;
  /// The ranks of the trace that it is part of; the caller's.
  std::vector<uint32_t> ranks;
};

class TraceReader {
 public:
  virtual ~TraceReader() = default;
  /// The word for `--kind` and the report.
  virtual std::string_view kind() const = 0;
  /// Whether an input that starts with `input.head` is of this format. The
  /// name may only break ties between formats of the same content.
  virtual bool recognizes(const InputFile& input) const = 0;
  /// Reads the input into `spool` and fills `report` (path, kind and bytes are
  /// the caller's). An input without anything to analyse sets report.refused.
  /// Errors: kIo; kParse when not even a first record is readable.
  virtual Status read(InputFile& input, TraceSpool& spool,
                      FileReport& report) const = 0;
};

/// All readers, in the order in which they are asked.
const std::vector<const TraceReader*>& trace_readers();
/// The same, and PyTorch's traces keep what each operator was called with.
std::vector<const TraceReader*> trace_readers_with_shapes();

/// A directory and all regular files below it.
struct DirectoryListing {
  std::string path;  ///< As given or found.
  /// Relative to `path`, "host0/0/dag.gml"; sorted; no hidden ones.
  std::vector<std::string> files;
};

/// What one part of a directory gave: an entry of the report, and events.
struct DirectoryPart {
  FileReport report;
  std::optional<TraceSpool> spool;
};

/// A reader of directories whose files only make sense together (dPRO's,
/// BytePS's, a profile of several hosts).
class DirectoryReader {
 public:
  virtual ~DirectoryReader() = default;
  /// As TraceReader::kind.
  virtual std::string_view kind() const = 0;
  /// Whether the directory itself is the root of such a set. Asked from the
  /// outermost directory inwards; what one reader takes no other sees.
  virtual bool recognizes(const DirectoryListing& directory) const = 0;
  /// Reads all of it, one part or more in a fixed order; `spool_directory` is
  /// for TraceSpool. Reports carry whole paths, and `bytes`.
  /// Errors: as TraceReader::read.
  virtual Status read(const DirectoryListing& directory,
                      const std::string& spool_directory,
                      std::vector<DirectoryPart>& parts) const = 0;
};

/// All readers of directories, in the order in which they are asked.
const std::vector<const DirectoryReader*>& directory_readers();

}  // namespace reprise
