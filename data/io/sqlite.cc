#include "data/io/sqlite.h"

namespace reprise {

Result<Database> open_database(const std::string& name, int flags,
                               const char* file_system) {
  sqlite3* raw = nullptr;
  const int code = sqlite3_open_v2(
      name.c_str(), &raw, flags | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX,
      file_system);
  Database database(raw);
  if (code != SQLITE_OK)
    return fail(ErrorKind::kIo, "SQLite: {}", sqlite3_errstr(code));
  return database;
}

std::string file_uri(const std::string& path) {
  std::string uri = "file:";
  for (const char character : path)
    uri += fmt::format("%{:02x}", static_cast<uint8_t>(character));
  return uri;
}

Result<Database> open_database_in_place(const std::string& path) {
  return open_database(file_uri(path) + "?immutable=1", SQLITE_OPEN_READONLY);
}

Status distrust(sqlite3* database) {
  for (const int setting :
       {SQLITE_DBCONFIG_TRUSTED_SCHEMA, SQLITE_DBCONFIG_ENABLE_TRIGGER,
        SQLITE_DBCONFIG_ENABLE_VIEW}) {
    sqlite3_db_config(database, setting, 0, nullptr);
  }
  sqlite3_db_config(database, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_limit(database, SQLITE_LIMIT_ATTACHED, 0);
  if (Status set = execute(database,
                           "PRAGMA query_only=1; PRAGMA cell_size_check=1; "
                           "PRAGMA mmap_size=0");
      !set) {
    return fail(ErrorKind::kParse, "{}", set.error().message);
  }
  return {};
}

std::string_view column_text(sqlite3_stmt* statement, int column) {
  const void* bytes = sqlite3_column_blob(statement, column);
  if (bytes == nullptr) return {};
  return {static_cast<const char*>(bytes),
          static_cast<size_t>(sqlite3_column_bytes(statement, column))};
}

Result<Database> open_in_memory() {
  return open_database(":memory:", SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
}

Status execute(sqlite3* database, const std::string& sql) {
  if (sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr) !=
      SQLITE_OK) {
    return fail(ErrorKind::kIo, "SQLite: {}", sqlite3_errmsg(database));
  }
  return {};
}

Result<Statement> prepare(sqlite3* database, std::string_view sql) {
  sqlite3_stmt* raw = nullptr;
  if (sqlite3_prepare_v2(database, sql.data(), static_cast<int>(sql.size()),
                         &raw, nullptr) != SQLITE_OK) {
    return fail(ErrorKind::kParse, "SQLite: {}", sqlite3_errmsg(database));
  }
  return Statement(raw);
}

}  // namespace reprise
