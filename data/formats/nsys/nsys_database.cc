#include "data/formats/nsys/nsys_database.h"

#include <fmt/format.h>

#include <utility>

namespace reprise {
namespace {

/// Longest text or blob that is read; kernel names reach some 10 KB.
constexpr int kMaxValueBytes = 1 << 24;
/// An export has some 90 tables.
constexpr size_t kMaxTables = 4096;

/// `path` as an URI of SQLite's. "immutable" keeps it from looking for
/// journals and locks beside the file.
std::string uri_of(const std::string& path) {
  std::string uri = "file:";
  for (const char c : path) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                       (c >= '0' && c <= '9') || c == '/' || c == '.' ||
                       c == '_' || c == '-';
    if (plain) {
      uri.push_back(c);
    } else {
      uri += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return uri + "?mode=ro&immutable=1";
}

std::string_view column_text(sqlite3_stmt* statement, int column) {
  const void* bytes = sqlite3_column_blob(statement, column);
  if (bytes == nullptr) return {};
  return {static_cast<const char*>(bytes),
          static_cast<size_t>(sqlite3_column_bytes(statement, column))};
}

}  // namespace

bool NsysRows::next() {
  if (!statement_) return false;
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) {
    // A damaged tree may lead to the same rows again and again.
    const int64_t row_id = sqlite3_column_int64(statement_.get(), 0);
    if (!row_id_ || row_id > *row_id_) {
      row_id_ = row_id;
      return true;
    }
    damage_ = "rows out of order";
  } else if (code != SQLITE_DONE) {
    damage_ = sqlite3_errmsg(sqlite3_db_handle(statement_.get()));
  }
  statement_.reset();
  return false;
}

std::optional<int64_t> NsysRows::integer(size_t column) const {
  const int place = static_cast<int>(column) + 1;
  if (sqlite3_column_type(statement_.get(), place) != SQLITE_INTEGER) {
    return std::nullopt;
  }
  return sqlite3_column_int64(statement_.get(), place);
}

int64_t NsysRows::integer_or(size_t column, int64_t fallback) const {
  return integer(column).value_or(fallback);
}

std::string_view NsysRows::text(size_t column) const {
  const int place = static_cast<int>(column) + 1;
  const int type = sqlite3_column_type(statement_.get(), place);
  if (type != SQLITE_TEXT && type != SQLITE_BLOB) return {};
  return column_text(statement_.get(), place);
}

Result<NsysDatabase> NsysDatabase::open(const std::string& path) {
  sqlite3* raw = nullptr;
  const int code = sqlite3_open_v2(
      uri_of(path).c_str(), &raw,
      SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_URI, nullptr);
  NsysDatabase opened;
  opened.database_.reset(raw);
  if (code != SQLITE_OK) {
    return fail(ErrorKind::kIo, "{}: {}", path, sqlite3_errstr(code));
  }
  sqlite3_db_config(raw, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(raw, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_limit(raw, SQLITE_LIMIT_LENGTH, kMaxValueBytes);
  sqlite3_limit(raw, SQLITE_LIMIT_ATTACHED, 0);
  if (const Status set =
          execute(raw, "PRAGMA query_only=1; PRAGMA cell_size_check=1;");
      !set) {
    return fail(ErrorKind::kParse, "{}: {}", path, set.error().message);
  }
  if (const Status listed = opened.list_tables(); !listed) {
    return pass(listed.error(), path);
  }
  return opened;
}

Status NsysDatabase::list_tables() {
  auto names = prepare(database_.get(),
                       "SELECT name FROM sqlite_master WHERE type = 'table' "
                       "AND sql NOT LIKE 'CREATE VIRTUAL%'");
  if (!names) return pass(names.error());
  int code = SQLITE_ROW;
  while ((code = sqlite3_step(names->get())) == SQLITE_ROW &&
         tables_.size() < kMaxTables) {
    tables_.emplace(column_text(names->get(), 0), Table());
  }
  if (code != SQLITE_DONE && code != SQLITE_ROW) {
    return fail(ErrorKind::kParse, "SQLite: {}",
                sqlite3_errmsg(database_.get()));
  }
  auto columns =
      prepare(database_.get(), "SELECT name, pk FROM pragma_table_info(?)");
  if (!columns) return pass(columns.error());
  for (auto& [name, table] : tables_) {
    sqlite3_reset(columns->get());
    sqlite3_bind_text(columns->get(), 1, name.data(),
                      static_cast<int>(name.size()), SQLITE_STATIC);
    while (sqlite3_step(columns->get()) == SQLITE_ROW) {
      const std::string_view column = column_text(columns->get(), 0);
      table.columns.emplace(column);
      if (sqlite3_column_int(columns->get(), 1) == 1) table.key = column;
    }
  }
  return {};
}

bool NsysDatabase::has_table(std::string_view table) const {
  return tables_.contains(table);
}

bool NsysDatabase::has_column(std::string_view table,
                              std::string_view column) const {
  const auto found = tables_.find(table);
  return found != tables_.end() && found->second.columns.contains(column);
}

bool NsysDatabase::is_key(std::string_view table,
                          std::string_view column) const {
  const auto found = tables_.find(table);
  return found != tables_.end() && found->second.key == column;
}

NsysRows NsysDatabase::rows(
    std::string_view table,
    std::initializer_list<std::string_view> columns) const {
  NsysRows rows;
  if (!has_table(table)) return rows;
  std::string sql = "SELECT rowid";
  for (const std::string_view column : columns) {
    sql += has_column(table, column) ? fmt::format(", \"{}\"", column)
                                     : std::string(", NULL");
  }
  auto statement =
      prepare(database_.get(), fmt::format("{} FROM \"{}\"", sql, table));
  if (!statement) {
    rows.damage_ = statement.error().message;
    return rows;
  }
  rows.statement_ = std::move(*statement);
  return rows;
}

std::optional<std::string> NsysDatabase::string_of(int64_t id) {
  if (!strings_prepared_) {
    strings_prepared_ = true;
    if (is_key("StringIds", "id") && has_column("StringIds", "value")) {
      auto lookup =
          prepare(database_.get(), "SELECT value FROM StringIds WHERE id = ?");
      if (lookup) string_lookup_ = std::move(*lookup);
    } else {
      NsysRows all = rows("StringIds", {"id", "value"});
      while (all.next()) {
        if (const auto key = all.integer(0)) {
          all_strings_.emplace(*key, all.text(1));
        }
      }
    }
  }
  if (string_lookup_) {
    sqlite3_reset(string_lookup_.get());
    sqlite3_bind_int64(string_lookup_.get(), 1, id);
    if (sqlite3_step(string_lookup_.get()) != SQLITE_ROW) return std::nullopt;
    return std::string(column_text(string_lookup_.get(), 0));
  }
  const auto found = all_strings_.find(id);
  if (found == all_strings_.end()) return std::nullopt;
  return found->second;
}

}  // namespace reprise
