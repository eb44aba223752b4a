// An Nsight Systems export, opened so that a stranger's file can only be read:
// read-only, its schema untrusted, no views, no virtual tables, no generated
// columns. Tables and columns differ from version to version, so that each is
// looked up by name and what is absent reads as empty.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "data/io/sqlite.h"
#include "data/result.h"

namespace reprise {

/// The rows of one table, in their order; one walk.
class NsysRows {
 public:
  /// False at the end and at damage; what was read before it is good.
  bool next();
  /// A value of the row by its place among the columns asked for; empty when it
  /// is NULL, not an integer, or the table lacks the column.
  std::optional<int64_t> integer(size_t column) const;
  int64_t integer_or(size_t column, int64_t fallback) const;
  /// Text or blob, until the next row; empty when it is neither.
  std::string_view text(size_t column) const;
  const std::string& damage() const { return damage_; }

 private:
  friend class NsysDatabase;
  Statement statement_;
  std::optional<int64_t> row_id_;
  std::string damage_;
};

class NsysDatabase {
 public:
  /// Errors: kIo; kParse (not a database, or damaged where its tables are
  /// listed).
  static Result<NsysDatabase> open(const std::string& path);

  bool has_table(std::string_view table) const;
  bool has_column(std::string_view table, std::string_view column) const;
  /// Whether `column` is the table's key, so that looking one up is fast.
  bool is_key(std::string_view table, std::string_view column) const;
  /// Without the table, no rows.
  NsysRows rows(std::string_view table,
                std::initializer_list<std::string_view> columns) const;
  /// The text of StringIds' row `id`; empty if there is none.
  std::optional<std::string> string_of(int64_t id);

 private:
  struct Table {
    std::set<std::string, std::less<>> columns;
    std::string key;
  };
  Status list_tables();

  Database database_;
  Statement string_lookup_;
  std::map<std::string, Table, std::less<>> tables_;
  /// Only when StringIds has no key.
  std::map<int64_t, std::string> all_strings_;
  bool strings_prepared_ = false;
};

}  // namespace reprise
