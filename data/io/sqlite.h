// SQLite handles that close themselves, and its errors as Result.
#pragma once

#include <sqlite3.h>

#include <memory>
#include <string>
#include <string_view>

#include "data/result.h"

namespace reprise {

struct CloseDatabase {
  void operator()(sqlite3* database) const { sqlite3_close_v2(database); }
};
struct FinalizeStatement {
  void operator()(sqlite3_stmt* statement) const {
    sqlite3_finalize(statement);
  }
};
using Database = std::unique_ptr<sqlite3, CloseDatabase>;
using Statement = std::unique_ptr<sqlite3_stmt, FinalizeStatement>;

/// Opens a database by its name or "file:" URI; `flags` are those of
/// sqlite3_open_v2. Errors: kIo with SQLite's message.
Result<Database> open_database(const std::string& name, int flags);

/// The URI of a file, whatever its name is made of.
std::string file_uri(const std::string& path);

/// Opens an empty database in memory. Errors: kIo (out of memory).
Result<Database> open_in_memory();

/// Runs statements without results. Errors: kIo with SQLite's message.
Status execute(sqlite3* database, const std::string& sql);

/// Errors: kParse with SQLite's message: the file lacks what the statement
/// names.
Result<Statement> prepare(sqlite3* database, std::string_view sql);

}  // namespace reprise
