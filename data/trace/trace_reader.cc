// Reads a trace as data from a stranger, table by table, every table and column
// checked against its checksum, and the whole against what traces hold to.
#include "data/trace/trace_reader.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <span>

#include "data/file.h"
#include "data/io/column_names.h"
#include "data/trace/columns.h"
#include "data/trace/event_order.h"
#include "data/trace/row_reader.h"
#include "data/trace/segment_reader.h"
#include "data/trace/tables.h"
#include "data/trace/trace.h"
#include "data/trace/trace_database.h"
#include "data/trace/validate_trace.h"

namespace reprise {
namespace {

/// What a table's rows must be: how many, with which checksum.
struct Checksum {
  std::string table;
  int64_t rows = 0, crc = 0;
  bool operator==(const Checksum&) const = default;
};

enum class ChecksumColumn { kTable, kRows, kCrc, kCount };
constexpr ColumnNames<ChecksumColumn> kChecksumColumns = {
    {ChecksumColumn::kTable, "name"},
    {ChecksumColumn::kRows, "rows"},
    {ChecksumColumn::kCrc, "crc"}};

Result<std::vector<Checksum>> read_checksums(
    sqlite3* database, const std::vector<TableSpec>& tables) {
  Result<Statement> select =
      prepare(database, fmt::format("SELECT {} FROM checksum ORDER BY id",
                                    fmt::join(kChecksumColumns.all(), ", ")));
  if (!select) return pass(select.error());
  std::vector<Checksum> checksums;
  Row row;
  const auto cell = [&](ChecksumColumn column) -> const Cell& {
    return row[static_cast<size_t>(column)];
  };
  for (const TableSpec& table : tables) {
    const Result<bool> read = next_row(select->get(), "tii", row);
    if (!read) return pass(read.error());
    if (!*read ||
        std::get<std::string>(cell(ChecksumColumn::kTable)) != table.name) {
      return fail(ErrorKind::kParse, "no checksum of table {}", table.name);
    }
    checksums.push_back({std::string(table.name),
                         std::get<int64_t>(cell(ChecksumColumn::kRows)),
                         std::get<int64_t>(cell(ChecksumColumn::kCrc))});
  }
  return checksums;
}

/// Text that a row holds, which lies in the file once.
uint64_t text_bytes(const Row& row) {
  uint64_t sum = 0;
  for (const Cell& cell : row) {
    if (const auto* text = std::get_if<std::string>(&cell)) sum += text->size();
  }
  return sum;
}

/// Rows of a damaged file may share their pages; `file_bytes` bounds them all.
Status read_table(sqlite3* database, const TableSpec& table,
                  const Checksum& checksum, uint64_t file_bytes, Trace& trace) {
  Result<Statement> select = prepare(
      database, fmt::format("SELECT id, {} FROM {} ORDER BY id",
                            fmt::join(table.columns, ", "), table.name));
  if (!select) return pass(select.error());
  const std::string types = fmt::format("i{}", table.types);
  uint32_t crc = 0;
  int64_t count = 0;
  uint64_t bytes = 0;
  Row row;
  for (;; ++count) {
    const Result<bool> read = next_row(select->get(), types, row);
    if (!read) return pass(read.error(), fmt::format("row {}", count));
    if (!*read) break;
    if (std::get<int64_t>(row[0]) != count) {
      return fail(ErrorKind::kParse, "row {} has id {}", count,
                  std::get<int64_t>(row[0]));
    }
    row.erase(row.begin());
    bytes += text_bytes(row);
    if (bytes > file_bytes)
      return fail(ErrorKind::kParse, "more text than the file has bytes");
    crc = checksum_of(row, crc);
    if (!table.add(trace, row)) {
      return fail(ErrorKind::kParse, "row {} has a value that is out of range",
                  count);
    }
  }
  if (count != checksum.rows || int64_t{crc} != checksum.crc) {
    return fail(ErrorKind::kParse, "checksum over {} rows differs", count);
  }
  return {};
}

/// The whole file, table by table.
class DatabaseReader {
 public:
  DatabaseReader(const TraceDatabase& opened, std::string_view file,
                 const EventSink* sink)
      : sink_(sink),
        file_(file),
        database_(opened.database.get()),
        schema_(opened.schema),
        file_bytes_(opened.file_bytes) {}

  Result<Trace> read() {
    Result<std::vector<Checksum>> checksums =
        read_checksums(database_, trace_tables(schema_));
    if (!checksums) return pass(checksums.error(), "table checksum");
    checksums_ = std::move(*checksums);
    Trace trace;
    for (size_t i = 0; i < checksums_.size(); ++i) {
      const TableSpec& table = trace_tables(schema_)[i];
      if (Status read =
              read_table(database_, table, checksums_[i], file_bytes_, trace);
          !read) {
        return pass(read.error(), fmt::format("table {}", table.name));
      }
    }
    if (Status read = read_all_segments(trace); !read)
      return pass(read.error());
    sort_events(trace.events);
    if (Status valid = validate_trace(trace); !valid)
      return pass(valid.error());
    return trace;
  }

 private:
  Status read_all_segments(Trace& trace) {
    const auto events = event_columns().first(
        schema_ == 1 ? kEventColumnsOfSchema1 : event_columns().size());
    DrainRecords drain;
    if (sink_ != nullptr && sink_->take && trace.ranks.size() > 1 &&
        trace.program_text.empty()) {
      drain.most = sink_->most_events;
      drain.drain = [&](std::span<EncodedSegment> segments) {
        return sink_->take(trace, segments);
      };
    }
    if (sink_ != nullptr && sink_->watch) {
      drain.watch = sink_->watch;
      drain.what = "reading " + file_;
    }
    Status read = read_segments(kEventTable, kEventCountTable, events,
                                trace.events, drain);
    if (!read || schema_ == 1) return read;
    return read_segments(kDependencyTable, kDependencyCountTable,
                         dependency_columns(), trace.dependencies);
  }

  /// The records that were read must be as many as the count table says.
  template <typename Record>
  Status read_segments(std::string_view name, std::string_view count_table,
                       std::span<const ColumnSpec<Record>> columns,
                       std::vector<Record>& records,
                       const DrainRecords& drain = {}) {
    SegmentReader<Record> reader(database_, name, columns, file_bytes_);
    if (Status read = reader.read(records, drain); !read)
      return pass(read.error(), fmt::format("table {}", name));
    const std::vector<Row> rows = count_rows(reader.counts());
    uint32_t crc = 0;
    for (const Row& row : rows) crc = checksum_of(row, crc);
    const Checksum found{std::string(count_table),
                         static_cast<int64_t>(rows.size()), int64_t{crc}};
    if (std::find(checksums_.begin(), checksums_.end(), found) ==
        checksums_.end()) {
      return fail(ErrorKind::kParse,
                  "table {}: {} records found, table {} says otherwise", name,
                  records.size(), count_table);
    }
    return {};
  }

  const EventSink* sink_;  ///< Null: events stay in the trace.
  std::string file_;
  sqlite3* database_;
  int32_t schema_;
  uint64_t file_bytes_;
  std::vector<Checksum> checksums_;
};

Result<Trace> read_opened(const Result<TraceDatabase>& opened,
                          const std::string& file,
                          const EventSink* sink = nullptr) {
  if (!opened) return pass(opened.error(), file);
  Result<Trace> trace = DatabaseReader(*opened, file, sink).read();
  if (!trace) return pass(trace.error(), file);
  return trace;
}

Result<Trace> read_path(const std::string& path, const EventSink* sink) {
  Result<TraceDatabase> opened = open_trace_file(path);
  if (opened || opened.error().kind != ErrorKind::kIo)
    return read_opened(opened, path, sink);
  Result<std::string> bytes = read_file(path);
  if (!bytes) return pass(bytes.error());
  return read_opened(open_trace_bytes(*bytes), path, sink);
}

}  // namespace

Result<Trace> parse_trace(std::string bytes, const std::string& file) {
  return read_opened(open_trace_bytes(bytes), file);
}

Result<Trace> read_trace(const std::string& path) {
  return read_path(path, nullptr);
}

Result<Trace> read_trace(const std::string& path, const EventSink& sink) {
  return read_path(path, &sink);
}

}  // namespace reprise
