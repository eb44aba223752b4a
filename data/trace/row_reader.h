// Rows of a stranger's database: each cell must be of the type that the schema
// states.
#pragma once

#include <string_view>

#include "data/io/sqlite.h"
#include "data/result.h"
#include "data/trace/tables.h"

namespace reprise {

/// Moves to the next row: false at the end. Errors: kParse.
Result<bool> next_row(sqlite3_stmt* statement);

/// Reads the next row into `row`, whose types are as in TableSpec::types: false
/// at the end. Errors: kParse.
Result<bool> next_row(sqlite3_stmt* statement, std::string_view types,
                      Row& row);

/// Reads the first columns of the row that the statement stands on. Errors:
/// kParse.
Status read_row(sqlite3_stmt* statement, std::string_view types, Row& row);

}  // namespace reprise
