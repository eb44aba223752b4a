// An Nsight Systems export, opened so that a stranger's file can only be read:
// read-only, its schema untrusted, no views, no virtual tables, no generated
// columns. Tables and columns differ from version to version, so that each is
// looked up by name and what is absent reads as empty.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "data/io/column_names.h"
#include "data/io/sqlite.h"
#include "data/result.h"

namespace reprise {

/// Every column that the reader asks for, in whichever table it stands.
enum class NsysColumn : uint8_t {
  kBinaryData,
  kBytes,
  kContext,
  kCopyKind,
  kCorrelation,
  kCudaDevice,
  kDemangledName,
  kDevice,
  kDomain,
  kEnd,
  kEvent,
  kEventSync,
  kEventType,
  kGpu,
  kGraph,
  kGraphNode,
  kId,
  kMangledName,
  kName,
  kNameId,
  kOffset,
  kPid,
  kSchema,
  kShortName,
  kStart,
  kStream,
  kSyncType,
  kText,
  kTextId,
  kTid,
  kType,
  kUtcEpoch,
  kValue,
  kCount
};

/// The rows of one table, in their order; one walk.
class NsysRows {
 public:
  /// False at the end and at damage; what was read before it is good.
  bool next();
  /// A value of the row; empty when it is NULL, not an integer, or the table
  /// lacks the column. Requires: the column was asked for.
  std::optional<int64_t> integer(NsysColumn column) const;
  int64_t integer_or(NsysColumn column, int64_t fallback) const;
  /// Text or blob, until the next row; empty when it is neither.
  std::string_view text(NsysColumn column) const;
  std::string_view table() const { return table_; }
  const std::string& damage() const { return damage_; }

 private:
  friend class NsysDatabase;
  /// Of a column in the statement, whose place 0 is the row's id.
  int place_of(NsysColumn column) const;

  Statement statement_;
  std::string table_;
  std::array<uint8_t, static_cast<size_t>(NsysColumn::kCount)> places_{};
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
                std::initializer_list<NsysColumn> columns) const;
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
