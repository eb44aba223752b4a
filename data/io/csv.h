// Rows of a CSV table, read in place from a stream: fields in quotes (RFC
// 4180), columns by the names of the first row.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/io/byte_source.h"
#include "data/io/column_names.h"
#include "data/result.h"

namespace reprise {

class CsvRows {
 public:
  /// `source` must outlive the object.
  explicit CsvRows(ByteSource& source) : source_(source) {}

  /// Moves to the next row; false at the end. Rows of more than 1 MiB are
  /// passed over and counted. Errors: as ByteSource::read.
  Result<bool> next();
  const std::vector<std::string>& fields() const { return fields_; }
  int64_t rows_too_long() const { return too_long_; }
  /// The input ended within quotes.
  bool cut() const { return cut_; }

 private:
  Result<int> next_byte();
  Result<bool> read_row();

  ByteSource& source_;
  std::string buffer_;
  size_t at_ = 0;
  std::vector<std::string> fields_;
  int64_t too_long_ = 0;
  bool cut_ = false;
};

/// The places of `names` in a header. Errors: kParse, naming the first that it
/// lacks.
Status find_columns(const std::vector<std::string>& header,
                    std::span<const std::string_view> names,
                    std::span<size_t> places);

/// A table whose first row names its columns, those of `Column` among them.
template <typename Column>
class CsvTable {
 public:
  CsvTable(ByteSource& source, const ColumnNames<Column>& names)
      : rows_(source), names_(names) {}

  /// Reads the first row. Errors: kParse; as ByteSource::read.
  Status read_header() {
    const Result<bool> row = rows_.next();
    if (!row) return pass(row.error());
    if (Status found = find_columns(rows_.fields(), names_.all(), places_);
        !found) {
      return found;
    }
    last_ = *std::max_element(places_.begin(), places_.end());
    return {};
  }
  /// As CsvRows::next.
  Result<bool> next() { return rows_.next(); }
  /// Whether the row reaches to the last of the columns.
  bool is_whole() const { return rows_.fields().size() > last_; }
  /// Requires: the row is whole.
  std::string_view operator[](Column column) const {
    return rows_.fields()[places_[static_cast<size_t>(column)]];
  }
  const CsvRows& rows() const { return rows_; }

 private:
  CsvRows rows_;
  ColumnNames<Column> names_;
  std::array<size_t, ColumnNames<Column>::kCount> places_{};
  size_t last_ = 0;
};

}  // namespace reprise
