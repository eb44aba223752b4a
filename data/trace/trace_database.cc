// Three gates before a row is read: the 100 bytes of SQLite's header, checked
// before SQLite sees the file; a connection that can neither write nor run
// anything the file defines; and a schema that is ours to the letter, so that
// no view, trigger or index of a stranger's is ever used. Format of the header:
// https://www.sqlite.org/fileformat.html, section 1.3.
#include "data/trace/trace_database.h"

#include <sys/stat.h>

#include <cstdio>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "data/trace/row_reader.h"
#include "data/trace/tables.h"

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
  constexpr size_t kPageSizeAt = 16, kPageCountAt = 28, kVersionAt = 60;
  if (!begins_as_trace(bytes)) {
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

/// No trace has a longer statement in its schema.
constexpr int kMaxSqlBytes = 10'000;

/// The tables must be exactly ours: no views, triggers, indices or other
/// definitions.
Status check_schema(sqlite3* database, int32_t schema) {
  std::vector<std::string> expected{std::string(kChecksumSql),
                                    column_table_sql(kEventTable)};
  if (schema > 1) expected.push_back(column_table_sql(kDependencyTable));
  for (const TableSpec& table : trace_tables(schema))
    expected.push_back(table.create_sql());
  Result<Statement> select =
      prepare(database, "SELECT sql FROM sqlite_schema ORDER BY rowid");
  if (!select) return pass(select.error());
  Row row;
  for (const std::string& sql : expected) {
    const Result<bool> read = next_row(select->get(), "t", row);
    if (!read) return pass(read.error(), "table sqlite_schema");
    if (!*read || std::get<std::string>(row[0]) != sql) {
      return fail(ErrorKind::kParse, "table sqlite_schema: expected \"{}\"",
                  sql.substr(0, sql.find('(')));
    }
  }
  const Result<bool> more = next_row(select->get());
  if (!more || *more)
    return fail(ErrorKind::kParse, "table sqlite_schema: unexpected entries");
  return {};
}

/// The first bytes of a file; fewer when it is shorter or cannot be read.
std::string read_head(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(
      std::fopen(path.c_str(), "rbe"), &std::fclose);
  std::string head(kSqliteHeaderBytes, '\0');
  head.resize(file ? std::fread(head.data(), 1, head.size(), file.get()) : 0);
  return head;
}

Result<TraceDatabase> check(Database database, int32_t schema,
                            uint64_t file_bytes) {
  if (Status set = distrust(database.get()); !set) return pass(set.error());
  sqlite3_limit(database.get(), SQLITE_LIMIT_SQL_LENGTH, kMaxSqlBytes);
  if (Status valid = check_schema(database.get(), schema); !valid)
    return pass(valid.error());
  return TraceDatabase{std::move(database), schema, file_bytes};
}

}  // namespace

bool begins_as_trace(std::string_view head) {
  constexpr size_t kApplicationAt = 68;
  return head.size() >= kSqliteHeaderBytes && head.starts_with(kSqliteMagic) &&
         word_at(head, kApplicationAt) ==
             static_cast<uint32_t>(kTraceApplicationId);
}

Result<TraceDatabase> open_trace_bytes(std::string& bytes) {
  const Result<int32_t> schema = check_header(bytes, bytes.size());
  if (!schema) return pass(schema.error());
  Result<Database> database = open_in_memory();
  if (!database) return pass(database.error());
  const auto size = static_cast<sqlite3_int64>(bytes.size());
  const int code = sqlite3_deserialize(
      database->get(), "main", reinterpret_cast<unsigned char*>(bytes.data()),
      size, size, SQLITE_DESERIALIZE_READONLY);
  if (code != SQLITE_OK)
    return fail(ErrorKind::kParse, "SQLite: {}", sqlite3_errstr(code));
  return check(std::move(*database), *schema, bytes.size());
}

Result<TraceDatabase> open_trace_file(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode))
    return fail(ErrorKind::kIo, "not a regular file");
  Result<Database> database = open_database_in_place(path);
  if (!database) return pass(database.error());
  const auto file_bytes = static_cast<uint64_t>(info.st_size);
  const Result<int32_t> schema = check_header(read_head(path), file_bytes);
  if (!schema) return pass(schema.error());
  return check(std::move(*database), *schema, file_bytes);
}

}  // namespace reprise
