// A small table of a trace file as a list of fields: each names a column, and
// the member of a record that lies in it. Name, type, writing and reading of a
// column stand in one place.
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "data/trace/tables.h"
#include "data/trace/trace.h"

namespace reprise {

constexpr StreamKind last_of(StreamKind) { return kLastStreamKind; }
constexpr SynchronizationKind last_of(SynchronizationKind) {
  return kLastSynchronizationKind;
}

/// How a value lies in a cell, and back: false when it is out of range.
inline Cell to_cell(const std::string& value) { return value; }
inline Cell to_cell(double value) { return value; }
Cell to_cell(const std::vector<uint32_t>& group);  ///< "0,1,2".
template <typename Value>
requires std::integral<Value> || std::is_enum_v<Value> Cell
to_cell(Value value) {
  return static_cast<int64_t>(value);
}

inline bool from_cell(Cell& cell, std::string& value) {
  value = std::move(std::get<std::string>(cell));
  return true;
}
inline bool from_cell(Cell& cell, double& value) {
  value = std::get<double>(cell);
  return true;
}
inline bool from_cell(Cell& cell, bool& value) {
  value = std::get<int64_t>(cell) != 0;
  return true;
}
bool from_cell(Cell& cell, std::vector<uint32_t>& group);
template <std::integral Value>
bool from_cell(Cell& cell, Value& value) {
  value = static_cast<Value>(std::get<int64_t>(cell));
  return std::in_range<Value>(std::get<int64_t>(cell));
}
template <typename Value>
requires std::is_enum_v<Value>
bool from_cell(Cell& cell, Value& value) {
  const int64_t number = std::get<int64_t>(cell);
  value = static_cast<Value>(number);
  return number >= 0 && number <= static_cast<int64_t>(last_of(Value{}));
}

/// One column of a table of `Record`s.
template <typename Record>
struct Field {
  std::string_view name;
  char type;  ///< As in TableSpec::types.
  Cell (*get)(const Record& record);
  /// False when the value is out of range.
  bool (*set)(Record& record, Cell& cell);
};

template <typename Value>
constexpr char type_of_cell() {
  if constexpr (std::is_floating_point_v<Value>) return 'r';
  if constexpr (std::integral<Value> || std::is_enum_v<Value>) return 'i';
  return 't';
}

template <typename Record, typename Value>
Record record_of(Value Record::*);
template <typename Record, typename Value>
Value value_of(Value Record::*);

/// The column `name` holds the record's `member`.
template <auto member>
auto field(std::string_view name) {
  using Record = decltype(record_of(member));
  using Value = decltype(value_of(member));
  return Field<Record>{
      name, type_of_cell<Value>(),
      [](const Record& record) { return to_cell(record.*member); },
      [](Record& record, Cell& cell) {
        return from_cell(cell, record.*member);
      }};
}

/// The table of the records that a trace keeps in `records`. A row may be
/// shorter than `fields` (schema 1): the rest keeps its defaults.
template <typename Record>
TableSpec record_table(std::string_view name,
                       std::vector<Record> Trace::*records,
                       std::vector<Field<Record>> fields,
                       size_t columns_of_schema_1 = 0) {
  TableSpec table;
  table.name = name;
  table.columns_of_schema_1 = columns_of_schema_1;
  for (const Field<Record>& one : fields) {
    table.columns.push_back(one.name);
    table.types.push_back(one.type);
  }
  table.rows = [records, fields](const Trace& trace) {
    std::vector<Row> rows;
    rows.reserve((trace.*records).size());
    for (const Record& record : trace.*records) {
      Row& row = rows.emplace_back();
      row.reserve(fields.size());
      for (const Field<Record>& one : fields) row.push_back(one.get(record));
    }
    return rows;
  };
  table.add = [records, fields = std::move(fields)](Trace& trace, Row& row) {
    Record& record = (trace.*records).emplace_back();
    for (size_t i = 0; i < row.size(); ++i) {
      if (!fields[i].set(record, row[i])) return false;
    }
    return true;
  };
  return table;
}

}  // namespace reprise
