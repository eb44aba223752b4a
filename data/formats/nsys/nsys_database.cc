#include "data/formats/nsys/nsys_database.h"

#include <fmt/format.h>

#include <utility>

namespace reprise {
namespace {

/// Longest text or blob that is read; kernel names reach some 10 KB.
constexpr int kMaxValueBytes = 1 << 24;
/// An export has some 90 tables.
constexpr size_t kMaxTables = 4096;

using enum NsysColumn;
constexpr ColumnNames<NsysColumn> kNames = {{kBinaryData, "binaryData"},
                                            {kBytes, "bytes"},
                                            {kContext, "contextId"},
                                            {kCopyKind, "copyKind"},
                                            {kCorrelation, "correlationId"},
                                            {kCudaDevice, "cudaId"},
                                            {kDemangledName, "demangledName"},
                                            {kDevice, "deviceId"},
                                            {kDomain, "domainId"},
                                            {kEnd, "end"},
                                            {kEvent, "eventId"},
                                            {kEventSync, "eventSyncId"},
                                            {kEventType, "eventType"},
                                            {kGpu, "gpuId"},
                                            {kGraph, "graphId"},
                                            {kGraphNode, "graphNodeId"},
                                            {kId, "id"},
                                            {kMangledName, "mangledName"},
                                            {kName, "name"},
                                            {kNameId, "nameId"},
                                            {kOffset, "offset"},
                                            {kPid, "globalPid"},
                                            {kSchema, "schemaId"},
                                            {kShortName, "shortName"},
                                            {kStart, "start"},
                                            {kStream, "streamId"},
                                            {kSyncType, "syncType"},
                                            {kText, "text"},
                                            {kTextId, "textId"},
                                            {kTid, "globalTid"},
                                            {kType, "type"},
                                            {kUtcEpoch, "utcEpochNs"},
                                            {kValue, "value"}};

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

int NsysRows::place_of(NsysColumn column) const {
  const uint8_t place = places_[static_cast<size_t>(column)];
  REPRISE_CHECK(place > 0);
  return place;
}

std::optional<int64_t> NsysRows::integer(NsysColumn column) const {
  const int place = place_of(column);
  if (sqlite3_column_type(statement_.get(), place) != SQLITE_INTEGER) {
    return std::nullopt;
  }
  return sqlite3_column_int64(statement_.get(), place);
}

int64_t NsysRows::integer_or(NsysColumn column, int64_t fallback) const {
  return integer(column).value_or(fallback);
}

std::string_view NsysRows::text(NsysColumn column) const {
  const int place = place_of(column);
  const int type = sqlite3_column_type(statement_.get(), place);
  if (type != SQLITE_TEXT && type != SQLITE_BLOB) return {};
  return column_text(statement_.get(), place);
}

Result<NsysDatabase> NsysDatabase::open(const std::string& path) {
  NsysDatabase opened;
  Result<Database> database = open_database_in_place(path);
  if (!database) return pass(database.error(), path);
  opened.database_ = std::move(*database);
  sqlite3_limit(opened.database_.get(), SQLITE_LIMIT_LENGTH, kMaxValueBytes);
  Status ready = distrust(opened.database_.get());
  if (ready) ready = opened.list_tables();
  if (!ready) return pass(ready.error(), path);
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

NsysRows NsysDatabase::rows(std::string_view table,
                            std::initializer_list<NsysColumn> columns) const {
  NsysRows rows;
  rows.table_ = table;
  if (!has_table(table)) return rows;
  std::string sql = "SELECT rowid";
  uint8_t place = 0;
  for (const NsysColumn column : columns) {
    rows.places_[static_cast<size_t>(column)] = ++place;
    sql += has_column(table, kNames[column])
               ? fmt::format(", \"{}\"", kNames[column])
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
      NsysRows all = rows("StringIds", {kId, kValue});
      while (all.next()) {
        if (const auto key = all.integer(kId)) {
          all_strings_.emplace(*key, all.text(kValue));
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
