// Reads a trace as data from a stranger: from memory, read-only, with no schema
// but our own, every table and column checked against its checksum.
#include <span>

#include "data/file.h"
#include "data/trace/columns.h"
#include "data/trace/crc32.h"
#include "data/trace/sqlite.h"
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
Status check_header(std::string_view bytes) {
  constexpr size_t kPageSizeAt = 16, kPageCountAt = 28, kVersionAt = 60,
                   kApplicationAt = 68;
  if (bytes.size() < kSqliteHeaderBytes || !bytes.starts_with(kSqliteMagic) ||
      word_at(bytes, kApplicationAt) !=
          static_cast<uint32_t>(kTraceApplicationId)) {
    return fail(ErrorKind::kParse, "not a Reprise trace ({} bytes)",
                bytes.size());
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
  if (bytes.size() < whole_bytes) {
    return fail(ErrorKind::kParse, "cut short: {} bytes, its header says {}",
                bytes.size(), whole_bytes);
  }
  return {};
}

/// The file's database over `bytes`, which must outlive it.
Result<Database> open_bytes(std::string& bytes) {
  Result<Database> database = open_in_memory();
  if (!database) return database;
  sqlite3* const raw = database->get();
  for (const int setting :
       {SQLITE_DBCONFIG_TRUSTED_SCHEMA, SQLITE_DBCONFIG_ENABLE_TRIGGER,
        SQLITE_DBCONFIG_ENABLE_VIEW}) {
    sqlite3_db_config(raw, setting, 0, nullptr);
  }
  sqlite3_db_config(raw, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_limit(raw, SQLITE_LIMIT_ATTACHED, 0);
  sqlite3_limit(raw, SQLITE_LIMIT_SQL_LENGTH, 10'000);
  const auto size = static_cast<sqlite3_int64>(bytes.size());
  const int code = sqlite3_deserialize(
      raw, "main", reinterpret_cast<unsigned char*>(bytes.data()), size, size,
      SQLITE_DESERIALIZE_READONLY);
  if (code != SQLITE_OK)
    return fail(ErrorKind::kParse, "SQLite: {}", sqlite3_errstr(code));
  if (Status set =
          execute(raw, "PRAGMA query_only=1; PRAGMA cell_size_check=1");
      !set) {
    return fail(ErrorKind::kParse, "{}", set.error().message);
  }
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
Status check_schema(sqlite3* database) {
  std::vector<std::string> expected{std::string(kChecksumSql),
                                    std::string(kColumnSql)};
  for (const TableSpec& table : trace_tables())
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

Result<std::vector<Row>> read_checksums(sqlite3* database) {
  Result<Statement> select =
      prepare(database, "SELECT name, rows, crc FROM checksum ORDER BY id");
  if (!select) return pass(select.error());
  std::vector<Row> rows;
  for (const TableSpec& table : trace_tables()) {
    const Result<bool> read =
        next_row(select->get(), "tii", rows.emplace_back());
    if (!read) return pass(read.error());
    if (!*read || std::get<std::string>(rows.back()[0]) != table.name) {
      return fail(ErrorKind::kParse, "no checksum of table {}", table.name);
    }
  }
  return rows;
}

Status read_table(sqlite3* database, const TableSpec& table,
                  const Row& checksum, Trace& trace) {
  std::string sql = "SELECT id";
  for (const std::string_view column : table.columns)
    sql += fmt::format(", {}", column);
  Result<Statement> select =
      prepare(database, sql + fmt::format(" FROM {} ORDER BY id", table.name));
  if (!select) return pass(select.error());
  const std::string types = fmt::format("i{}", table.types);
  uint32_t crc = 0;
  int64_t count = 0;
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

std::string_view blob_of(sqlite3_stmt* statement) {
  const void* data = sqlite3_column_blob(statement, 5);
  const auto size = static_cast<size_t>(sqlite3_column_bytes(statement, 5));
  return {data == nullptr ? "" : static_cast<const char*>(data), size};
}

/// Reads the column that `statement` stands on into `events`.
Status read_column(sqlite3_stmt* statement, const ColumnSpec& column,
                   std::span<Event> events) {
  const auto encoding = sqlite3_column_int64(statement, 3);
  const void* data = sqlite3_column_blob(statement, 5);
  const auto size = static_cast<size_t>(sqlite3_column_bytes(statement, 5));
  const std::string_view bytes(
      data == nullptr ? "" : static_cast<const char*>(data), size);
  if (encoding != static_cast<int64_t>(column.encoding)) {
    return fail(ErrorKind::kParse, "encoding {} is unknown here", encoding);
  }
  if (sqlite3_column_int64(statement, 4) != int64_t{crc32(bytes)}) {
    return fail(ErrorKind::kParse, "checksum over {} bytes differs",
                bytes.size());
  }
  return decode_column(column, column.encoding, bytes, events);
}

/// Reads the segment that starts at the statement's row and appends its events.
/// Memory grows with the bytes that are there, not with a number in the file.
Status read_segment(sqlite3_stmt* select, int64_t segment,
                    std::vector<Event>& events) {
  const size_t first = events.size();
  int64_t place = 0;
  Row row;
  for (const ColumnSpec& column : event_columns()) {
    const std::string where =
        fmt::format("segment {}, column {}", segment, column.name);
    const Result<bool> more = place == 0 ? true : next(select);
    if (!more) return pass(more.error(), where);
    if (!*more) return fail(ErrorKind::kParse, "{} is missing", where);
    if (Status read = read_row(select, "iit", row); !read)
      return pass(read.error(), where);
    if (std::get<int64_t>(row[0]) != segment ||
        std::get<int64_t>(row[1]) != place ||
        std::get<std::string>(row[2]) != column.name) {
      return fail(ErrorKind::kParse, "{} is missing", where);
    }
    if (place++ == 0) {
      const size_t count = count_values(blob_of(select));
      if (count > kSegmentEvents) {
        return fail(ErrorKind::kParse, "{}: {} events in one segment", where,
                    count);
      }
      events.resize(first + count);
    }
    Status decoded =
        read_column(select, column, std::span(events).subspan(first));
    if (!decoded) return pass(decoded.error(), where);
  }
  return {};
}

Status read_segments(sqlite3* database, std::vector<Event>& events) {
  Result<Statement> select =
      prepare(database,
              "SELECT segment, place, name, encoding, crc, data FROM "
              "event_column ORDER BY segment, place");
  if (!select) return pass(select.error());
  for (int64_t segment = 0;; ++segment) {
    const Result<bool> more = next(select->get());
    if (!more) return pass(more.error());
    if (!*more) return {};
    if (Status read = read_segment(select->get(), segment, events); !read)
      return read;
  }
}

/// The events that were read must be as many as table `segment` says.
Status check_segments(const Trace& trace, const Row& checksum) {
  const std::vector<Row> rows = trace_tables().back().rows(trace);
  uint32_t crc = 0;
  for (const Row& row : rows) crc = checksum_of(row, crc);
  if (static_cast<int64_t>(rows.size()) != std::get<int64_t>(checksum[1]) ||
      int64_t{crc} != std::get<int64_t>(checksum[2])) {
    return fail(ErrorKind::kParse,
                "{} events found, table segment says otherwise",
                trace.events.size());
  }
  return {};
}

Result<Trace> read_database(sqlite3* database) {
  if (Status schema = check_schema(database); !schema)
    return pass(schema.error());
  const Result<std::vector<Row>> checksums = read_checksums(database);
  if (!checksums) return pass(checksums.error(), "table checksum");
  Trace trace;
  for (size_t i = 0; i < trace_tables().size(); ++i) {
    const TableSpec& table = trace_tables()[i];
    if (Status read = read_table(database, table, (*checksums)[i], trace);
        !read) {
      return pass(read.error(), fmt::format("table {}", table.name));
    }
  }
  if (Status read = read_segments(database, trace.events); !read) {
    return pass(read.error(), "table event_column");
  }
  if (Status agree = check_segments(trace, checksums->back()); !agree) {
    return pass(agree.error(), "table event_column");
  }
  if (Status valid = validate_trace(trace); !valid) return pass(valid.error());
  return trace;
}

}  // namespace

Result<Trace> parse_trace(std::string bytes, const std::string& file) {
  if (Status header = check_header(bytes); !header) {
    return pass(header.error(), file);
  }
  Result<Database> database = open_bytes(bytes);
  if (!database) return pass(database.error(), file);
  Result<Trace> trace = read_database(database->get());
  if (!trace) return pass(trace.error(), file);
  return trace;
}

Result<Trace> read_trace(const std::string& path) {
  Result<std::string> bytes = read_file(path);
  if (!bytes) return pass(bytes.error());
  return parse_trace(std::move(*bytes), path);
}

}  // namespace reprise
