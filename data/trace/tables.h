// The small tables of a trace file: their SQL, and the rows of a Trace. Writer,
// reader and checksums share this one description (data/trace/format.md).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "data/result.h"
#include "data/trace/trace.h"

namespace reprise {

constexpr int32_t kTraceApplicationId = 0x52505254;  // "RPRT"
constexpr int32_t kTraceSchemaVersion = 1;
constexpr std::string_view kTraceSchema = "reprise.trace/1";

/// Tables that are not made of rows of a Trace.
constexpr std::string_view kChecksumSql =
    "CREATE TABLE checksum(id INTEGER PRIMARY KEY, name TEXT NOT NULL, rows "
    "INTEGER NOT NULL, "
    "crc INTEGER NOT NULL)";
constexpr std::string_view kColumnSql =
    "CREATE TABLE event_column(segment INTEGER NOT NULL, place INTEGER NOT "
    "NULL, "
    "name TEXT NOT NULL, encoding INTEGER NOT NULL, crc INTEGER NOT NULL, data "
    "BLOB NOT NULL, "
    "PRIMARY KEY(segment, place)) WITHOUT ROWID";

/// Every cell has the type that its column states; there are no nulls.
using Cell = std::variant<int64_t, double, std::string>;
using Row = std::vector<Cell>;

/// A table `name(id INTEGER PRIMARY KEY, …)`, where id is the place from 0.
struct TableSpec {
  std::string_view name;
  std::vector<std::string_view> columns;
  std::string_view types;  ///< One letter a column: i, r(eal) or t(ext).
  std::vector<Row> (*rows)(const Trace& trace);
  /// Adds one row to a trace; false when a value is out of range.
  bool (*add)(Trace& trace, Row& row);

  std::string create_sql() const;
};

/// In the order in which they are written and read; `segment` is the last.
const std::vector<TableSpec>& trace_tables();

/// Continues the checksum of a table with one row.
uint32_t checksum_of(const Row& row, uint32_t before);

/// Checks what readers rely on: ids in range, no event that ends before it
/// starts, finite numbers, everything sorted as trace.h says. Errors: kInvalid,
/// naming the place.
Status validate_trace(const Trace& trace);

}  // namespace reprise
