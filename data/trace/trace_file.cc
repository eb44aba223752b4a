// Segments are written as they come, the small tables and the checksums last;
// then the file is flushed to disk and renamed, so that no reader ever sees
// half a trace. SQLite needs no journal for a file that is thrown away when
// anything fails.
#include "data/trace/trace_file.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "data/io/crc32.h"
#include "data/io/sqlite_descriptor.h"
#include "data/trace/tables.h"

namespace reprise {
namespace {

/// Upper limit of a trace file; SQLite's own for databases in memory is 1 GiB.
constexpr sqlite3_int64 kMaximumFileBytes = sqlite3_int64{1} << 36;

Status step_once(sqlite3_stmt* statement) {
  const bool done = sqlite3_step(statement) == SQLITE_DONE;
  sqlite3_reset(statement);
  if (!done) {
    return fail(ErrorKind::kIo, "SQLite: {}",
                sqlite3_errmsg(sqlite3_db_handle(statement)));
  }
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

/// No journal and no locks: the file is thrown away when anything fails.
Status create_tables(sqlite3* database) {
  sqlite3_int64 limit = kMaximumFileBytes;
  sqlite3_file_control(database, "main", SQLITE_FCNTL_SIZE_LIMIT, &limit);
  std::string sql = fmt::format(
      "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA "
      "locking_mode=EXCLUSIVE; PRAGMA application_id={}; PRAGMA "
      "user_version={}; BEGIN; {}; {}; {}",
      kTraceApplicationId, kTraceSchemaVersion, kChecksumSql,
      column_table_sql(kEventTable), column_table_sql(kDependencyTable));
  for (const TableSpec& table : trace_tables(kTraceSchemaVersion))
    sql += "; " + table.create_sql();
  return execute(database, sql);
}

}  // namespace

Result<TraceFileWriter> TraceFileWriter::create(const std::string& path) {
  TraceFileWriter writer(path);
  Result<Database> database = fail(ErrorKind::kIo, "not opened");
  if (Result<NewFile> file = NewFile::create(path);
      file && !file->is_in_place()) {
    database = open_database_in(file->descriptor());
    if (database) writer.file_.emplace(*std::move(file));
  }
  if (!database) database = open_in_memory();
  if (!database) return writer.failed(database.error());
  writer.database_ = std::move(*database);
  Status ready = create_tables(writer.database_.get());
  if (ready) ready = writer.prepare_statements();
  if (!ready) return writer.failed(ready.error());
  return writer;
}

TraceFileWriter::TraceFileWriter(TraceFileWriter&& other) noexcept = default;

Status TraceFileWriter::prepare_statements() {
  const auto insert = [&](Statement& statement, const std::string& sql) {
    Result<Statement> prepared = prepare(database_.get(), sql);
    if (!prepared) return Status(pass(prepared.error()));
    statement = std::move(*prepared);
    return Status();
  };
  const auto columns = [](std::string_view table) {
    return fmt::format("INSERT INTO {}({}) VALUES(?1,?2,?3,?4,?5,?6)", table,
                       fmt::join(kSegmentParts.all(), ", "));
  };
  if (Status done = insert(insert_event_, columns(kEventTable)); !done)
    return done;
  if (Status done = insert(insert_dependency_, columns(kDependencyTable));
      !done) {
    return done;
  }
  return insert(insert_checksum_,
                "INSERT INTO checksum(name, rows, crc) VALUES(?1,?2,?3)");
}

tl::unexpected<Error> TraceFileWriter::failed(const Error& error) const {
  return fail(error.kind, "{}: cannot write: {}", path_, error.message);
}

template <typename Record>
Status TraceFileWriter::add_segment(sqlite3_stmt* insert,
                                    std::span<const ColumnSpec<Record>> specs,
                                    std::span<const ColumnBytes> columns,
                                    size_t count,
                                    std::vector<int64_t>& counts) {
  for (size_t place = 0; place < columns.size(); ++place) {
    const auto& [encoding, bytes] = columns[place];
    const auto at = [](SegmentPart part) { return static_cast<int>(part) + 1; };
    sqlite3_bind_int64(insert, at(SegmentPart::kSegment), std::ssize(counts));
    sqlite3_bind_int64(insert, at(SegmentPart::kPlace),
                       static_cast<sqlite3_int64>(place));
    bind_text(insert, at(SegmentPart::kName), specs[place].name);
    sqlite3_bind_int(insert, at(SegmentPart::kEncoding),
                     static_cast<int>(encoding));
    sqlite3_bind_int64(insert, at(SegmentPart::kChecksum), crc32(bytes));
    sqlite3_bind_blob64(insert, at(SegmentPart::kData), bytes.data(),
                        bytes.size(), SQLITE_STATIC);
    if (Status written = step_once(insert); !written)
      return failed(written.error());
  }
  counts.push_back(static_cast<int64_t>(count));
  return {};
}

Status TraceFileWriter::add_events(std::span<const ColumnBytes> columns,
                                   size_t count) {
  return add_segment(insert_event_.get(), event_columns(), columns, count,
                     event_counts_);
}

Status TraceFileWriter::add_dependencies(
    const std::vector<EventDependency>& dependencies) {
  const std::span<const EventDependency> all(dependencies);
  SegmentEncoder<EventDependency> encoder(dependency_columns());
  for (size_t first = 0; first < all.size(); first += kSegmentRecords) {
    const auto segment =
        all.subspan(first, std::min(kSegmentRecords, all.size() - first));
    if (Status added = add_segment(
            insert_dependency_.get(), dependency_columns(),
            encoder.encode(segment), segment.size(), dependency_counts_);
        !added) {
      return added;
    }
  }
  return {};
}

/// Writes the small tables and their rows in `checksum`.
Status TraceFileWriter::write_tables(const Trace& trace) {
  for (const TableSpec& table : trace_tables(kTraceSchemaVersion)) {
    std::string sql = fmt::format("INSERT INTO {} VALUES(?1", table.name);
    for (size_t i = 0; i < table.columns.size(); ++i)
      sql += fmt::format(",?{}", i + 2);
    Result<Statement> insert = prepare(database_.get(), sql + ")");
    if (!insert) return pass(insert.error());
    const std::vector<Row> rows = table.rows != nullptr ? table.rows(trace)
                                  : table.name == kEventCountTable
                                      ? count_rows(event_counts_)
                                      : count_rows(dependency_counts_);
    uint32_t crc = 0;
    for (size_t id = 0; id < rows.size(); ++id) {
      crc = checksum_of(rows[id], crc);
      sqlite3_bind_int64(insert->get(), 1, static_cast<sqlite3_int64>(id));
      for (size_t i = 0; i < rows[id].size(); ++i)
        bind(insert->get(), static_cast<int>(i) + 2, rows[id][i]);
      if (Status written = step_once(insert->get()); !written) return written;
    }
    bind_text(insert_checksum_.get(), 1, table.name);
    sqlite3_bind_int64(insert_checksum_.get(), 2, std::ssize(rows));
    sqlite3_bind_int64(insert_checksum_.get(), 3, crc);
    if (Status written = step_once(insert_checksum_.get()); !written)
      return written;
  }
  return execute(database_.get(), "COMMIT");
}

Status TraceFileWriter::finish(const Trace& trace, Existing existing) {
  if (Status added = add_dependencies(trace.dependencies); !added) return added;
  Status written = write_tables(trace);
  if (!written) return failed(written.error());
  for (Statement* statement :
       {&insert_event_, &insert_dependency_, &insert_checksum_}) {
    statement->reset();
  }
  if (!file_) {
    sqlite3_int64 size = 0;
    const std::unique_ptr<unsigned char, decltype(&sqlite3_free)> bytes(
        sqlite3_serialize(database_.get(), "main", &size, 0), &sqlite3_free);
    if (bytes == nullptr) return failed({ErrorKind::kIo, "out of memory"});
    return write_file_atomically(
        path_,
        {reinterpret_cast<const char*>(bytes.get()), static_cast<size_t>(size)},
        existing);
  }
  database_.reset();
  written = file_->publish(existing);
  if (!written) return failed(written.error());
  return {};
}

}  // namespace reprise
