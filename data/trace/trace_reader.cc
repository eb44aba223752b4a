// Reads a trace as data from a stranger: read-only, with no schema but our own,
// every table and column checked against its checksum.
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <span>

#include "data/file.h"
#include "data/io/crc32.h"
#include "data/io/sqlite.h"
#include "data/trace/columns.h"
#include "data/trace/event_order.h"
#include "data/trace/tables.h"
#include "data/trace/trace.h"

namespace reprise {
namespace {

constexpr std::string_view kSqliteMagic{"SQLite format 3\0", 16};
constexpr size_t kSqliteHeaderBytes = 100;

/// SQLite's header is big-endian.
uint32_t word_at(std::string_view bytes, size_t offset) {
  uint32_t word = 0;
  for (size_t i = 0; i < 4; ++i)
    word = word << 8 | static_cast<uint8_t>(bytes[offset + i]);
  return word;
}

/// Checks what the first 100 bytes say before SQLite sees the file.
/// `file_bytes` is the size of the whole. Returns the schema.
Result<int32_t> check_header(std::string_view bytes, uint64_t file_bytes) {
  constexpr size_t kPageSizeAt = 16, kPageCountAt = 28, kVersionAt = 60,
                   kApplicationAt = 68;
  if (bytes.size() < kSqliteHeaderBytes || !bytes.starts_with(kSqliteMagic) ||
      word_at(bytes, kApplicationAt) !=
          static_cast<uint32_t>(kTraceApplicationId)) {
    return fail(ErrorKind::kParse, "not a Reprise trace ({} bytes)",
                file_bytes);
  }
  const uint32_t version = word_at(bytes, kVersionAt);
  if (version > static_cast<uint32_t>(kTraceSchemaVersion)) {
    return fail(ErrorKind::kUnsupported,
                "trace schema {}; this build reads up to schema {}: use a "
                "newer Reprise",
                version, kTraceSchemaVersion);
  }
  if (version == 0)
    return fail(ErrorKind::kParse, "trace schema 0 does not exist");
  const uint64_t page_bytes = word_at(bytes, kPageSizeAt) >> 16;
  const uint64_t whole_bytes =
      (page_bytes == 1 ? 65536 : page_bytes) * word_at(bytes, kPageCountAt);
  if (file_bytes < whole_bytes) {
    return fail(ErrorKind::kParse,
                "cut short: {} bytes, its header says {}: copy or record it "
                "again",
                file_bytes, whole_bytes);
  }
  return static_cast<int32_t>(version);
}

/// Nothing of the file is trusted, and nothing in it is run.
Status distrust(sqlite3* database) {
  for (const int setting :
       {SQLITE_DBCONFIG_TRUSTED_SCHEMA, SQLITE_DBCONFIG_ENABLE_TRIGGER,
        SQLITE_DBCONFIG_ENABLE_VIEW}) {
    sqlite3_db_config(database, setting, 0, nullptr);
  }
  sqlite3_db_config(database, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_limit(database, SQLITE_LIMIT_ATTACHED, 0);
  sqlite3_limit(database, SQLITE_LIMIT_SQL_LENGTH, 10'000);
  if (Status set = execute(database,
                           "PRAGMA query_only=1; PRAGMA cell_size_check=1; "
                           "PRAGMA mmap_size=0");
      !set) {
    return fail(ErrorKind::kParse, "{}", set.error().message);
  }
  return {};
}

/// The file's database over `bytes`, which must outlive it.
Result<Database> open_bytes(std::string& bytes) {
  Result<Database> database = open_in_memory();
  if (!database) return database;
  const auto size = static_cast<sqlite3_int64>(bytes.size());
  const int code = sqlite3_deserialize(
      database->get(), "main", reinterpret_cast<unsigned char*>(bytes.data()),
      size, size, SQLITE_DESERIALIZE_READONLY);
  if (code != SQLITE_OK)
    return fail(ErrorKind::kParse, "SQLite: {}", sqlite3_errstr(code));
  if (Status set = distrust(database->get()); !set) return pass(set.error());
  return database;
}

/// The database in place. "immutable" keeps SQLite from locks, journals and
/// logs that lie beside the file.
Result<Database> open_file(const std::string& path) {
  Result<Database> database =
      open_database(file_uri(path) + "?immutable=1", SQLITE_OPEN_READONLY);
  if (!database) return database;
  if (Status set = distrust(database->get()); !set) return pass(set.error());
  return database;
}

/// Copies one cell; false when it is not of the stated type.
bool read_cell(sqlite3_stmt* statement, int column, char type, Cell& cell) {
  const int found = sqlite3_column_type(statement, column);
  if (type == 'i' && found == SQLITE_INTEGER) {
    cell = int64_t{sqlite3_column_int64(statement, column)};
    return true;
  }
  if (type == 'r' && found == SQLITE_FLOAT) {
    cell = sqlite3_column_double(statement, column);
    return true;
  }
  if (type != 't' || found != SQLITE_TEXT) return false;
  const unsigned char* text = sqlite3_column_text(statement, column);
  if (text == nullptr) return false;
  cell =
      std::string(reinterpret_cast<const char*>(text),
                  static_cast<size_t>(sqlite3_column_bytes(statement, column)));
  return true;
}

/// Reads the row that the statement stands on. Errors: kParse.
Status read_row(sqlite3_stmt* statement, std::string_view types, Row& row) {
  row.resize(types.size());
  for (size_t i = 0; i < types.size(); ++i) {
    if (!read_cell(statement, static_cast<int>(i), types[i], row[i])) {
      return fail(ErrorKind::kParse,
                  "column {} has another type than the schema states", i);
    }
  }
  return {};
}

/// Moves to the next row: false at the end. Errors: kParse.
Result<bool> next(sqlite3_stmt* statement) {
  const int code = sqlite3_step(statement);
  if (code == SQLITE_ROW || code == SQLITE_DONE) return code == SQLITE_ROW;
  return fail(ErrorKind::kParse, "SQLite: {}",
              sqlite3_errmsg(sqlite3_db_handle(statement)));
}

/// Reads the next row into `row`: false at the end. Errors: kParse.
Result<bool> next_row(sqlite3_stmt* statement, std::string_view types,
                      Row& row) {
  Result<bool> more = next(statement);
  if (!more || !*more) return more;
  if (Status read = read_row(statement, types, row); !read)
    return pass(read.error());
  return true;
}

/// The tables must be exactly ours: no views, triggers, indices or other
/// definitions.
Status check_schema(sqlite3* database, int32_t schema) {
  std::vector<std::string> expected{std::string(kChecksumSql),
                                    column_table_sql(kEventTable)};
  if (schema > 1) expected.push_back(column_table_sql(kDependencyTable));
  for (const TableSpec& table : trace_tables(schema))
    expected.push_back(table.create_sql());
  Result<Statement> select = prepare(
      database, "SELECT type, name, sql FROM sqlite_schema ORDER BY rowid");
  if (!select) return pass(select.error());
  Row row;
  for (const std::string& sql : expected) {
    const Result<bool> read = next_row(select->get(), "ttt", row);
    if (!read) return pass(read.error(), "table sqlite_schema");
    if (!*read || std::get<std::string>(row[2]) != sql) {
      return fail(ErrorKind::kParse, "table sqlite_schema: expected \"{}\"",
                  sql.substr(0, sql.find('(')));
    }
  }
  const Result<bool> more = next_row(select->get(), "ttt", row);
  if (!more || *more)
    return fail(ErrorKind::kParse, "table sqlite_schema: unexpected entries");
  return {};
}

Result<std::vector<Row>> read_checksums(sqlite3* database,
                                        const std::vector<TableSpec>& tables) {
  Result<Statement> select =
      prepare(database, "SELECT name, rows, crc FROM checksum ORDER BY id");
  if (!select) return pass(select.error());
  std::vector<Row> rows;
  for (const TableSpec& table : tables) {
    const Result<bool> read =
        next_row(select->get(), "tii", rows.emplace_back());
    if (!read) return pass(read.error());
    if (!*read || std::get<std::string>(rows.back()[0]) != table.name) {
      return fail(ErrorKind::kParse, "no checksum of table {}", table.name);
    }
  }
  return rows;
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
                  const Row& checksum, uint64_t file_bytes, Trace& trace) {
  std::string sql = "SELECT id";
  for (const std::string_view column : table.columns)
    sql += fmt::format(", {}", column);
  Result<Statement> select =
      prepare(database, sql + fmt::format(" FROM {} ORDER BY id", table.name));
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
  if (count != std::get<int64_t>(checksum[1]) ||
      int64_t{crc} != std::get<int64_t>(checksum[2])) {
    return fail(ErrorKind::kParse, "checksum over {} rows differs", count);
  }
  return {};
}

constexpr std::string_view kTooMuch = "holds more than the file has bytes";

/// Reads the segments of one table of columns.
template <typename Record>
class SegmentReader {
 public:
  SegmentReader(sqlite3* database, std::string_view table,
                std::span<const ColumnSpec<Record>> columns,
                uint64_t file_bytes)
      : database_(database),
        table_(table),
        columns_(columns),
        file_bytes_(file_bytes),
        blobs_(columns.size()),
        bytes_(columns.size()) {}

  /// Appends all records to `records`. Every record takes a byte of the file
  /// at least, so its size bounds them, whatever the file says.
  Status read(std::vector<Record>& records) {
    Result<size_t> count = count_records();
    if (!count) return pass(count.error());
    records.reserve(*count);
    Result<Statement> select = prepare(
        database_, fmt::format("SELECT segment, place, name, encoding, crc, "
                               "data FROM {} ORDER BY segment, place",
                               table_));
    if (!select) return pass(select.error());
    for (int64_t segment = 0;; ++segment) {
      const Result<bool> more = next(select->get());
      if (!more) return pass(more.error());
      if (!*more) return {};
      if (Status read = read_segment(select->get(), segment, records); !read)
        return pass(read.error(), fmt::format("segment {}", segment));
    }
  }

  /// Records of each segment that was read.
  const std::vector<int64_t>& counts() const { return counts_; }

 private:
  static std::string_view blob_of(sqlite3_stmt* statement, int column) {
    const void* data = sqlite3_column_blob(statement, column);
    const int size = sqlite3_column_bytes(statement, column);
    return {data == nullptr ? "" : static_cast<const char*>(data),
            static_cast<size_t>(size)};
  }

  Result<size_t> count_records() {
    Result<Statement> select = prepare(
        database_, fmt::format("SELECT data FROM {} WHERE place=0", table_));
    if (!select) return pass(select.error());
    size_t count = 0;
    uint64_t bytes = 0;
    for (;;) {
      const Result<bool> more = next(select->get());
      if (!more) return pass(more.error());
      if (!*more) return count;
      const std::string_view blob = blob_of(select->get(), 0);
      count += count_values(blob);
      bytes += blob.size();
      if (bytes > file_bytes_) return fail(ErrorKind::kParse, "{}", kTooMuch);
    }
  }

  /// Copies the column that `select` stands on and checks it.
  Status read_column(sqlite3_stmt* select, int64_t segment, size_t place) {
    Row row;
    if (Status read = read_row(select, "iit", row); !read) return read;
    if (std::get<int64_t>(row[0]) != segment ||
        std::get<int64_t>(row[1]) != static_cast<int64_t>(place) ||
        std::get<std::string>(row[2]) != columns_[place].name) {
      return fail(ErrorKind::kParse, "is missing");
    }
    blobs_[place] = blob_of(select, 5);
    read_bytes_ += blobs_[place].size();
    if (read_bytes_ > file_bytes_)
      return fail(ErrorKind::kParse, "{}", kTooMuch);
    const auto encoding = sqlite3_column_int64(select, 3);
    const bool is_runs =
        place > 0 && encoding == static_cast<int64_t>(ColumnEncoding::kRuns);
    if (!is_runs &&
        encoding != static_cast<int64_t>(columns_[place].encoding)) {
      return fail(ErrorKind::kParse, "encoding {} is unknown here", encoding);
    }
    if (sqlite3_column_int64(select, 4) != int64_t{crc32(blobs_[place])}) {
      return fail(ErrorKind::kParse, "checksum over {} bytes differs",
                  blobs_[place].size());
    }
    bytes_[place] = {static_cast<ColumnEncoding>(encoding), blobs_[place]};
    return {};
  }

  Status read_segment(sqlite3_stmt* select, int64_t segment,
                      std::vector<Record>& records) {
    for (size_t place = 0; place < columns_.size(); ++place) {
      const Result<bool> more = place == 0 ? true : next(select);
      const Status read = !more   ? pass(more.error())
                          : *more ? read_column(select, segment, place)
                                  : fail(ErrorKind::kParse, "is missing");
      if (!read) {
        return fail(read.error().kind, "column {} {}", columns_[place].name,
                    read.error().message);
      }
    }
    const size_t first = records.size();
    const size_t count = count_values(blobs_[0]);
    if (count > kSegmentRecords || count > records.capacity() - first) {
      return fail(ErrorKind::kParse, "{} records in one segment", count);
    }
    records.resize(first + count);
    counts_.push_back(static_cast<int64_t>(count));
    return decode_segment<Record>(columns_, bytes_,
                                  std::span(records).subspan(first));
  }

  sqlite3* database_;
  std::string_view table_;
  std::span<const ColumnSpec<Record>> columns_;
  uint64_t file_bytes_;
  uint64_t read_bytes_ = 0;
  std::vector<std::string> blobs_;  ///< Of the segment that is being read.
  std::vector<ColumnBytes> bytes_;
  std::vector<int64_t> counts_;
};

/// The whole file, table by table.
class DatabaseReader {
 public:
  DatabaseReader(sqlite3* database, int32_t schema, uint64_t file_bytes)
      : database_(database), schema_(schema), file_bytes_(file_bytes) {}

  Result<Trace> read() {
    if (Status valid = check_schema(database_, schema_); !valid)
      return pass(valid.error());
    Result<std::vector<Row>> checksums =
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
    Status read =
        read_segments(kEventTable, kEventCountTable, events, trace.events);
    if (!read || schema_ == 1) return read;
    return read_segments(kDependencyTable, kDependencyCountTable,
                         dependency_columns(), trace.dependencies);
  }

  /// The records that were read must be as many as the count table says.
  template <typename Record>
  Status read_segments(std::string_view name, std::string_view count_table,
                       std::span<const ColumnSpec<Record>> columns,
                       std::vector<Record>& records) {
    SegmentReader<Record> reader(database_, name, columns, file_bytes_);
    if (Status read = reader.read(records); !read)
      return pass(read.error(), fmt::format("table {}", name));
    const std::vector<Row> rows = count_rows(reader.counts());
    uint32_t crc = 0;
    for (const Row& row : rows) crc = checksum_of(row, crc);
    for (const Row& checksum : checksums_) {
      if (std::get<std::string>(checksum[0]) == count_table &&
          (static_cast<int64_t>(rows.size()) !=
               std::get<int64_t>(checksum[1]) ||
           int64_t{crc} != std::get<int64_t>(checksum[2]))) {
        return fail(ErrorKind::kParse,
                    "table {}: {} records found, table {} says otherwise", name,
                    records.size(), count_table);
      }
    }
    return {};
  }

  sqlite3* database_;
  int32_t schema_;
  uint64_t file_bytes_;
  std::vector<Row> checksums_;
};

/// The first bytes of a file; fewer when it is shorter or cannot be read.
std::string read_head(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(
      std::fopen(path.c_str(), "rbe"), &std::fclose);
  std::string head(kSqliteHeaderBytes, '\0');
  head.resize(file ? std::fread(head.data(), 1, head.size(), file.get()) : 0);
  return head;
}

}  // namespace

Result<Trace> parse_trace(std::string bytes, const std::string& file) {
  const Result<int32_t> schema = check_header(bytes, bytes.size());
  if (!schema) return pass(schema.error(), file);
  Result<Database> database = open_bytes(bytes);
  if (!database) return pass(database.error(), file);
  Result<Trace> trace =
      DatabaseReader(database->get(), *schema, bytes.size()).read();
  if (!trace) return pass(trace.error(), file);
  return trace;
}

Result<Trace> read_trace(const std::string& path) {
  struct stat info {};
  Result<Database> database = fail(ErrorKind::kIo, "not opened");
  if (::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode))
    database = open_file(path);
  if (!database) {  // A pipe, or a name that is too long for SQLite.
    Result<std::string> bytes = read_file(path);
    if (!bytes) return pass(bytes.error());
    return parse_trace(std::move(*bytes), path);
  }
  const auto file_bytes = static_cast<uint64_t>(info.st_size);
  const Result<int32_t> schema = check_header(read_head(path), file_bytes);
  if (!schema) return pass(schema.error(), path);
  Result<Trace> trace =
      DatabaseReader(database->get(), *schema, file_bytes).read();
  if (!trace) return pass(trace.error(), path);
  return trace;
}

}  // namespace reprise
