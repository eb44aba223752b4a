// The small tables of a trace file: their SQL, and the rows of a Trace. Writer,
// reader and checksums share this one description (data/trace/format.md).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "data/io/column_names.h"
#include "data/result.h"
#include "data/trace/trace.h"

namespace reprise {

constexpr int32_t kTraceApplicationId = 0x52505254;  // "RPRT"
constexpr int32_t kTraceSchemaVersion = 2;
constexpr std::string_view kTraceSchema = "reprise.trace/2";

/// Tables that are not made of rows of a Trace.
constexpr std::string_view kChecksumSql =
    "CREATE TABLE checksum(id INTEGER PRIMARY KEY, name TEXT NOT NULL, rows "
    "INTEGER NOT NULL, "
    "crc INTEGER NOT NULL)";
constexpr std::string_view kEventTable = "event_column";
constexpr std::string_view kDependencyTable = "dependency_column";
/// Of the two tables above, where one column of one segment is a row.
std::string column_table_sql(std::string_view name);
enum class SegmentPart {
  kSegment,
  kPlace,
  kName,
  kEncoding,
  kChecksum,
  kData,
  kCount
};
constexpr ColumnNames<SegmentPart> kSegmentParts = {
    {SegmentPart::kSegment, "segment"}, {SegmentPart::kPlace, "place"},
    {SegmentPart::kName, "name"},       {SegmentPart::kEncoding, "encoding"},
    {SegmentPart::kChecksum, "crc"},    {SegmentPart::kData, "data"}};

/// Every cell has the type that its column states; there are no nulls.
using Cell = std::variant<int64_t, double, std::string>;
using Row = std::vector<Cell>;

/// A table `name(id INTEGER PRIMARY KEY, …)`, where id is the place from 0.
struct TableSpec {
  std::string_view name;
  std::vector<std::string_view> columns;
  std::string types;  ///< One letter a column: i, r(eal) or t(ext).
  /// Null for the two tables that count the records of segments.
  std::function<std::vector<Row>(const Trace& trace)> rows;
  /// Adds one row to a trace; false when a value is out of range.
  std::function<bool(Trace& trace, Row& row)> add;
  /// How many of the columns schema 1 has; 0: not the table.
  size_t columns_of_schema_1 = 0;

  std::string create_sql() const;
};

constexpr std::string_view kEventCountTable = "segment";
constexpr std::string_view kDependencyCountTable = "dependency_segment";

/// The tables of a schema, in the order in which they are written and read.
const std::vector<TableSpec>& trace_tables(int32_t schema);

/// The rows of a count table.
std::vector<Row> count_rows(const std::vector<int64_t>& counts);

/// Continues the checksum of a table with one row.
uint32_t checksum_of(const Row& row, uint32_t before);

}  // namespace reprise
