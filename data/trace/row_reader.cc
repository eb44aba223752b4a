#include "data/trace/row_reader.h"

#include <cstdint>
#include <string>

namespace reprise {
namespace {

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

}  // namespace

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

Result<bool> next_row(sqlite3_stmt* statement) {
  const int code = sqlite3_step(statement);
  if (code == SQLITE_ROW || code == SQLITE_DONE) return code == SQLITE_ROW;
  return fail(ErrorKind::kParse, "SQLite: {}",
              sqlite3_errmsg(sqlite3_db_handle(statement)));
}

Result<bool> next_row(sqlite3_stmt* statement, std::string_view types,
                      Row& row) {
  Result<bool> more = next_row(statement);
  if (!more || !*more) return more;
  if (Status read = read_row(statement, types, row); !read)
    return pass(read.error());
  return true;
}

}  // namespace reprise
