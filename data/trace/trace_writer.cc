// The file is built in memory and written whole: a full disk leaves nothing
// behind.
#include <algorithm>
#include <span>

#include "data/file.h"
#include "data/trace/columns.h"
#include "data/trace/crc32.h"
#include "data/trace/sqlite.h"
#include "data/trace/tables.h"
#include "data/trace/trace.h"

namespace reprise {
namespace {

/// Upper limit of a trace file; SQLite's own for databases in memory is 1 GiB.
constexpr sqlite3_int64 kMaximumFileBytes = sqlite3_int64{1} << 36;

Status step_once(sqlite3* database, sqlite3_stmt* statement) {
  const bool done = sqlite3_step(statement) == SQLITE_DONE;
  sqlite3_reset(statement);
  if (!done)
    return fail(ErrorKind::kIo, "SQLite: {}", sqlite3_errmsg(database));
  return {};
}

void bind_text(sqlite3_stmt* statement, int place, std::string_view text) {
  sqlite3_bind_text64(statement, place, text.data(), text.size(), SQLITE_STATIC,
                      SQLITE_UTF8);
}

void bind(sqlite3_stmt* statement, int place, const Cell& cell) {
  if (const auto* whole = std::get_if<int64_t>(&cell)) {
    sqlite3_bind_int64(statement, place, *whole);
  } else if (const auto* real = std::get_if<double>(&cell)) {
    sqlite3_bind_double(statement, place, *real);
  } else {
    bind_text(statement, place, std::get<std::string>(cell));
  }
}

/// Writes one small table and its row in `checksum`.
Status write_table(sqlite3* database, const TableSpec& table,
                   const Trace& trace, sqlite3_stmt* checksum) {
  if (Status created = execute(database, table.create_sql()); !created)
    return created;
  std::string sql = fmt::format("INSERT INTO {} VALUES(?1", table.name);
  for (size_t i = 0; i < table.columns.size(); ++i)
    sql += fmt::format(",?{}", i + 2);
  Result<Statement> insert = prepare(database, sql + ")");
  if (!insert) return pass(insert.error());
  const std::vector<Row> rows = table.rows(trace);
  uint32_t crc = 0;
  for (size_t id = 0; id < rows.size(); ++id) {
    crc = checksum_of(rows[id], crc);
    sqlite3_bind_int64(insert->get(), 1, static_cast<sqlite3_int64>(id));
    for (size_t i = 0; i < rows[id].size(); ++i) {
      bind(insert->get(), static_cast<int>(i) + 2, rows[id][i]);
    }
    if (Status written = step_once(database, insert->get()); !written)
      return written;
  }
  bind_text(checksum, 1, table.name);
  sqlite3_bind_int64(checksum, 2, static_cast<sqlite3_int64>(rows.size()));
  sqlite3_bind_int64(checksum, 3, crc);
  return step_once(database, checksum);
}

Status write_segments(sqlite3* database, const Trace& trace) {
  Result<Statement> insert =
      prepare(database, "INSERT INTO event_column VALUES(?1,?2,?3,?4,?5,?6)");
  if (!insert) return pass(insert.error());
  const std::span<const Event> events(trace.events);
  for (size_t first = 0; first < events.size(); first += kSegmentEvents) {
    const std::span<const Event> segment =
        events.subspan(first, std::min(kSegmentEvents, events.size() - first));
    int place = 0;
    for (const ColumnSpec& column : event_columns()) {
      const std::string bytes = encode_column(column, segment);
      sqlite3_bind_int64(insert->get(), 1,
                         static_cast<sqlite3_int64>(first / kSegmentEvents));
      sqlite3_bind_int(insert->get(), 2, place++);
      bind_text(insert->get(), 3, column.name);
      sqlite3_bind_int(insert->get(), 4, static_cast<int>(column.encoding));
      sqlite3_bind_int64(insert->get(), 5, crc32(bytes));
      sqlite3_bind_blob64(insert->get(), 6, bytes.data(), bytes.size(),
                          SQLITE_STATIC);
      if (Status written = step_once(database, insert->get()); !written)
        return written;
    }
  }
  return {};
}

Status fill(sqlite3* database, const Trace& trace) {
  sqlite3_int64 limit = kMaximumFileBytes;
  sqlite3_file_control(database, "main", SQLITE_FCNTL_SIZE_LIMIT, &limit);
  Status begun = execute(
      database,
      fmt::format(
          "PRAGMA application_id={}; PRAGMA user_version={}; BEGIN; {}; {}",
          kTraceApplicationId, kTraceSchemaVersion, kChecksumSql, kColumnSql));
  if (!begun) return begun;
  Result<Statement> checksum = prepare(
      database, "INSERT INTO checksum(name, rows, crc) VALUES(?1,?2,?3)");
  if (!checksum) return pass(checksum.error());
  for (const TableSpec& table : trace_tables()) {
    if (Status written = write_table(database, table, trace, checksum->get());
        !written) {
      return written;
    }
  }
  if (Status written = write_segments(database, trace); !written)
    return written;
  return execute(database, "COMMIT");
}

}  // namespace

Status write_trace(const Trace& trace, const std::string& path) {
  if (Status valid = validate_trace(trace); !valid)
    return pass(valid.error(), path);
  Result<Database> database = open_in_memory();
  if (!database) return pass(database.error(), path);
  if (Status filled = fill(database->get(), trace); !filled)
    return pass(filled.error(), path);
  sqlite3_int64 size = 0;
  const std::unique_ptr<unsigned char, decltype(&sqlite3_free)> bytes(
      sqlite3_serialize(database->get(), "main", &size, 0), &sqlite3_free);
  if (bytes == nullptr) return fail(ErrorKind::kIo, "{}: out of memory", path);
  return write_file_atomically(
      path,
      {reinterpret_cast<const char*>(bytes.get()), static_cast<size_t>(size)});
}

}  // namespace reprise
