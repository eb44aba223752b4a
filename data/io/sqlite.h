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
/// sqlite3_open_v2, `file_system` the name of a sqlite3_vfs or null for the
/// usual one. Errors: kIo with SQLite's message.
Result<Database> open_database(const std::string& name, int flags,
                               const char* file_system = nullptr);

/// The URI of a file, whatever its name is made of.
std::string file_uri(const std::string& path);

/// Opens a file to be read where it lies. "immutable" keeps SQLite from locks,
/// journals and logs beside it. Errors: kIo.
Result<Database> open_database_in_place(const std::string& path);

/// Makes a database one of a stranger's: it is only read, and nothing that it
/// defines (views, triggers, functions in its schema) is run. Errors: kParse.
Status distrust(sqlite3* database);

/// Opens an empty database in memory. Errors: kIo (out of memory).
Result<Database> open_in_memory();

/// Runs statements without results. Errors: kIo with SQLite's message.
Status execute(sqlite3* database, const std::string& sql);

/// Text or blob of the row that the statement stands on, until its next step;
/// empty when it is neither.
std::string_view column_text(sqlite3_stmt* statement, int column);

/// Errors: kParse with SQLite's message: the file lacks what the statement
/// names.
Result<Statement> prepare(sqlite3* database, std::string_view sql);

}  // namespace reprise
