// Rows of a CSV table, read in place from a stream: fields in quotes (RFC
// 4180), columns by the names of the first row.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/io/byte_source.h"

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

}  // namespace reprise
