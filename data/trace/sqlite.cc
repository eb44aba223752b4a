#include "data/trace/sqlite.h"

namespace reprise {

Result<Database> open_in_memory() {
  sqlite3* raw = nullptr;
  const int code = sqlite3_open_v2(
      ":memory:", &raw,
      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
      nullptr);
  Database database(raw);
  if (code != SQLITE_OK)
    return fail(ErrorKind::kIo, "SQLite: {}", sqlite3_errstr(code));
  return database;
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
