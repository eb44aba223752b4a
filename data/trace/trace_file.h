// A trace file while it is written, segment by segment (data/trace/format.md).
// It has no name until it is complete, where the file system can do that.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/file.h"
#include "data/io/sqlite.h"
#include "data/result.h"
#include "data/trace/columns.h"
#include "data/trace/trace.h"
#include "data/trace/trace_spool.h"

namespace reprise {

/// Not thread-safe. Errors are kIo, or kInvalid where a file exists, and name
/// the path.
class TraceFileWriter {
 public:
  /// Writes to a NewFile; into memory first when `path` is a device or a pipe,
  /// or no file can be made there.
  static Result<TraceFileWriter> create(const std::string& path);
  TraceFileWriter(TraceFileWriter&& other) noexcept;
  TraceFileWriter& operator=(TraceFileWriter&&) = delete;
  ~TraceFileWriter() = default;

  /// Adds a segment of `count` events, `columns` as event_columns() says.
  Status add_events(std::span<const ColumnBytes> columns, size_t count);

  /// Writes all but the events of `trace` and publishes the file.
  Status finish(const Trace& trace, Existing existing);

 private:
  explicit TraceFileWriter(std::string path) : path_(std::move(path)) {}
  Status prepare_statements();
  template <typename Record>
  Status add_segment(sqlite3_stmt* insert,
                     std::span<const ColumnSpec<Record>> specs,
                     std::span<const ColumnBytes> columns, size_t count,
                     std::vector<int64_t>& counts);
  Status add_dependencies(const std::vector<EventDependency>& dependencies);
  Status write_tables(const Trace& trace);
  tl::unexpected<Error> failed(const Error& error) const;

  std::string path_;
  std::optional<NewFile> file_;  ///< None: in memory.
  Database database_;
  Statement insert_event_, insert_dependency_, insert_checksum_;
  std::vector<int64_t> event_counts_, dependency_counts_;
};

/// write_trace and write_spools (trace.h, trace_spool.h) where what has the
/// name already may be kept. Errors: theirs; kInvalid where it is.
Status write_trace(const Trace& trace, const std::string& path,
                   Existing existing);
Status write_spools(std::span<TraceSpool> spools,
                    const std::string& import_text, const std::string& path,
                    Existing existing);

}  // namespace reprise
